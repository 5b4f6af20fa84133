package rows

import "context"

// rowNeed looks for rows that nobody would ever claim, as they have no key or no state; nil: there are none.
func (d *Drainer) rowNeed(ctx context.Context, l *lane) (*need, error) {
	for _, k := range d.loose() {
		s := d.statement().add("SELECT 1 FROM ").name(d.table.Name).add(" WHERE ").name(k).add(" IS NULL")
		if d.table.State != "" {
			value, _ := d.own(pending)
			s.add(" AND ").is(d.table.State, value)
		}
		found, err := d.first(ctx, l, s, func(func(...any) error) error { return nil })
		if err != nil {
			return nil, err
		}
		if found {
			return plainNeed("give each row its own", "there are rows without a key (%s is NULL): they would never be claimed", k), nil
		}
	}
	c, _ := d.looks.column(d.table.State)
	if d.table.State == "" || !c.nullable {
		return nil, nil
	}
	var key []any
	s := d.statement().add("SELECT ", d.keys(), " FROM ").name(d.table.Name).add(" WHERE ").name(d.table.State).add(" IS NULL")
	found, err := d.first(ctx, l, s, func(scan func(...any) error) (err error) {
		key, err = d.scanKey(scan)
		return err
	})
	if err != nil || !found {
		return nil, err
	}
	return plainNeed("give each row a state, and make the column NOT NULL", "row %s has no %s (NULL): it would never be claimed", keyText(key, ","), d.table.State), nil
}

// first reads the first row of a query that Where is added to.
func (d *Drainer) first(ctx context.Context, l *lane, s *statement, read func(scan func(...any) error) error) (found bool, err error) {
	if d.table.Where != "" {
		s.add(" AND (", d.table.Where, ")")
	}
	s.add(" LIMIT 1")
	err = l.single(ctx, func() error {
		found = false
		return l.query(ctx, s, func(scan func(...any) error) error {
			found = true
			return read(scan)
		})
	})
	return found, err
}
