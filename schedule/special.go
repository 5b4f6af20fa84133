package schedule

// days is what an expression says about the days of a month. A day is due by
// the day-of-month field or by the day-of-week field; both must agree if
// either field starts with "*".
type days struct {
	both bool

	dom     uint32 // bits 1-31: days of the month
	last    uint32 // bit n: L-n, the day n days before the month's last
	lastW   uint32 // bit n: the weekday nearest to that day
	nearest uint32 // bit n: nW, the weekday nearest to day n

	dow     uint8    // bits 0-6: days of the week, 0 is Sunday
	dowLast uint8    // dL, the last such weekday of the month
	dowNth  [6]uint8 // d#n, the n-th such weekday of the month; n from 1
}

// inMonth returns the matching days of a month as bits 1-31. first is the
// weekday of the month's first day.
func (d *days) inMonth(year, month, first int) uint32 {
	n := daysIn(year, month)
	all := uint32(1)<<(n+1) - 2

	dom := d.dom
	if d.last|d.lastW|d.nearest != 0 {
		dom |= d.specialDays(n, first)
	}
	dow := everyWeek(d.dow, first)
	if d.dowLast != 0 {
		dow |= everyWeek(d.dowLast, first) & (all << (n - 7)) // the month's last seven
	}
	for i := 1; i <= 5; i++ {
		if d.dowNth[i] != 0 {
			dow |= everyWeek(d.dowNth[i], first) & (0xfe << (7 * (i - 1)))
		}
	}
	if d.both {
		return dom & dow & all
	}
	return (dom | dow) & all
}

// specialDays returns the days that L and W name, in a month of n days.
func (d *days) specialDays(n, first int) uint32 {
	var set uint32
	for i := range n {
		if d.last>>i&1 != 0 {
			set |= 1 << (n - i)
		}
		if d.lastW>>i&1 != 0 {
			set |= 1 << nearestWeekday(n-i, n, first)
		}
		if d.nearest>>(i+1)&1 != 0 {
			set |= 1 << nearestWeekday(i+1, n, first)
		}
	}
	return set
}

// nearestWeekday returns the day from Monday to Friday that is closest to day
// dom without leaving the month, which has n days.
func nearestWeekday(dom, n, first int) int {
	switch (first + dom - 1) % 7 {
	case 6: // Saturday
		if dom > 1 {
			return dom - 1
		}
		return dom + 2
	case 0: // Sunday
		if dom < n {
			return dom + 1
		}
		return dom - 2
	}
	return dom
}

// everyWeek spreads a set of weekdays over a month that begins on the weekday
// first, as bits 1-35.
func everyWeek(dow uint8, first int) uint32 {
	week := (uint32(dow)>>first | uint32(dow)<<(7-first)) & 0x7f
	return week<<1 | week<<8 | week<<15 | week<<22 | week<<29
}
