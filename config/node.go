package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// node is a value of the file, with anchors and merge keys put in their places.
type node struct {
	kind  kind
	place place
	text  string  // of a scalar
	block bool    // a scalar whose text is not as it stands in its line
	pairs []pair  // of a mapping
	items []*node // of a list
	bad   string  // what is wrong with it, if something is
	size  int     // how many values it is, with all in it
}

// pair is a key and its value.
type pair struct {
	key   string
	at    place // of the key
	value *node
	again []place // of the same key further down: it is there more than once
	copy  bool    // it is one of those
}

type kind int

const (
	isNull kind = iota
	isString
	isNumber
	isBool
	isMapping
	isList
)

func (k kind) String() string {
	return [...]string{"nothing", "a text", "a number", "true or false", "a mapping", "a list"}[k]
}

// parse reads the text as YAML.
func (d *decoder) parse(text []byte) (root *node, err error) {
	defer func() {
		if p := recover(); p != nil { // a mistake of the parser's is none of ours
			root, err = nil, d.errorAt(place{1, 1}, "this cannot be read as YAML: %v", p)
		}
	}()
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, d.syntax(err)
	}
	c := &converter{anchors: map[string]*node{}}
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			return nil, d.errorAt(position(doc.Body), "a second document: a file has one")
		}
		root = c.convert(doc.Body)
	}
	if c.over != nil {
		return nil, d.errorAt(*c.over, "with this, more than %d values are taken from anchors, and nothing of the file is read", maxTaken)
	}
	if root == nil {
		root = &node{place: place{1, 1}}
	}
	return root, nil
}

// syntax is the parser's error, with what people most often mean.
func (d *decoder) syntax(err error) error {
	var bad yaml.Error
	if !errors.As(err, &bad) || bad.GetToken() == nil || bad.GetToken().Position == nil {
		return d.errorAt(place{1, 1}, "this is no YAML: %v", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	at := place{bad.GetToken().Position.Line, bad.GetToken().Position.Column}
	e := d.errorAt(at, "this is no YAML, and nothing of the file is read: %s", bad.GetMessage())
	if hint := hintFor(d.line(at.line)); hint != "" {
		e.Msg += "; " + hint
	}
	e.Err = err
	return e
}

func (d *decoder) line(n int) string {
	if n < 1 || n > len(d.lines) {
		return ""
	}
	return d.lines[n-1]
}

func position(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return position(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return position(m.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{1, 1}
}

// maxTaken is how many values of a file may be copies of others: each line can
// take all of the line above many times.
const maxTaken = 200_000

// converter makes nodes of the parser's tree.
type converter struct {
	anchors map[string]*node
	taken   int    // values, by aliases
	over    *place // of the alias that took too many
}

func (c *converter) convert(n ast.Node) *node {
	v := c.read(n)
	if v.size == 0 {
		v.size = 1
		for _, item := range v.items {
			v.size += item.size
		}
		for _, p := range v.pairs {
			v.size += max(1, p.value.size)
		}
	}
	return v
}

// take is what an alias stands for.
func (c *converter) take(v *node, at place) *node {
	if c.taken += v.size; c.taken <= maxTaken {
		return v
	}
	if c.over == nil {
		c.over = &at
	}
	return &node{place: at}
}

func (c *converter) read(n ast.Node) *node {
	out := &node{}
	if n == nil {
		return out
	}
	out.place = position(n)
	scalar := func(k kind) *node {
		out.kind, out.text = k, n.GetToken().Value
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = isString, n.Value
		out.block = n.Token.Type != token.StringType && strings.Contains(n.Token.Origin, `\`) || strings.Contains(strings.TrimSpace(n.Token.Origin), "\n")
		if n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType {
			out.place.column++ // into the quotes: there the text begins
		}
	case *ast.LiteralNode:
		out.kind, out.text, out.block = isString, n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return scalar(isNumber)
	case *ast.BoolNode:
		return scalar(isBool)
	case *ast.SequenceNode:
		out.kind = isList
		for _, v := range n.Values {
			out.items = append(out.items, c.convert(v))
		}
	case *ast.MappingNode:
		return c.mapping(out, n.Values)
	case *ast.MappingValueNode:
		return c.mapping(out, []*ast.MappingValueNode{n})
	case *ast.AnchorNode:
		v := c.convert(n.Value)
		c.anchors[n.Name.GetToken().Value] = v
		return v
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if v := c.anchors[name]; v != nil {
			return c.take(v, out.place)
		}
		out.bad = fmt.Sprintf("there is no anchor &%s above; a text that begins with * is quoted: '*%[1]s'", name)
	case *ast.TagNode:
		if n.Start.Value != "!!str" {
			out.bad = fmt.Sprintf("the tag %s is not known here", n.Start.Value)
			return out
		}
		v := c.convert(n.Value)
		if v.kind == isNumber || v.kind == isBool {
			v.kind = isString
		}
		return v
	default:
		out.bad = "this kind of YAML is not read here"
	}
	return out
}

// mapping fills in a mapping. What << merges comes after the mapping's own
// keys, and gives way to them.
func (c *converter) mapping(out *node, values []*ast.MappingValueNode) *node {
	out.kind = isMapping
	index := map[string]int{} // in out.pairs, of each key's first
	var merged []*node
	for _, v := range values {
		p := pair{at: position(v.Key), value: c.convert(v.Value)}
		switch key := v.Key.(type) {
		case *ast.MergeKeyNode:
			if p.value.kind == isList && p.value.bad == "" {
				merged = append(merged, p.value.items...)
			} else {
				merged = append(merged, p.value)
			}
			continue
		case *ast.MappingKeyNode:
			p.key, p.value = "?", &node{place: p.at, bad: "a key is written as key: value"}
		default:
			k := c.convert(v.Key)
			p.key = k.text
			if k.bad != "" || k.kind == isMapping || k.kind == isList {
				p.value = &node{place: position(key), bad: "a key is a plain text"}
			}
		}
		if p.value.kind == isNull && p.value.bad == "" {
			p.value = &node{place: p.at} // it is missing there
		}
		if i, again := index[p.key]; again {
			first := &out.pairs[i]
			first.again = append(first.again, p.at)
			p.copy = true
			p.value = &node{place: p.at, bad: fmt.Sprintf("%s is there twice: it is on line %d already", p.key, first.at.line)}
		} else {
			index[p.key] = len(out.pairs)
		}
		out.pairs = append(out.pairs, p)
	}
	for _, m := range merged {
		if m.kind != isMapping || m.bad != "" {
			if m.bad == "" {
				m = &node{place: m.place, bad: "<< takes a mapping, as *name, or a list of mappings"}
			}
			out.pairs = append(out.pairs, pair{key: "<<", at: m.place, value: m})
			continue
		}
		for _, p := range m.pairs {
			if _, own := index[p.key]; !own || p.copy {
				index[p.key] = len(out.pairs)
				out.pairs = append(out.pairs, p)
			}
		}
	}
	return out
}
