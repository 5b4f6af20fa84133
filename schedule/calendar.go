package schedule

import "math/bits"

// fields is what an expression says about the wall clock: one bit for each
// value that matches. A set always has at least one bit.
type fields struct {
	second uint64 // bits 0-59
	minute uint64 // bits 0-59
	hour   uint32 // bits 0-23
	month  uint16 // bits 1-12
	days
}

// next returns the first matching wall-clock time at or after w, in seconds
// since 1970-01-01T00:00:00 on that wall, or noTick.
func (f *fields) next(w int64) int64 {
	n := floorDiv(w, day)
	year, month, d := civil(n)
	if year < minYear {
		year, month, d = minYear, 1, 0
		n = dayNumber(year, month) - 1
	}
	first := n - int64(d-1) // the day number of the month's first
	if f.month>>month&1 != 0 {
		in := f.inMonth(year, month, weekday(first))
		if in>>d&1 != 0 {
			if s := f.timeFrom(int(w - n*day)); s >= 0 {
				return n*day + int64(s)
			}
		}
		in = in >> (d + 1) << (d + 1)
		if in != 0 {
			return (first+int64(bits.TrailingZeros32(in))-1)*day + f.firstTime()
		}
	}
	for {
		rest := f.month >> (month + 1) << (month + 1)
		if rest == 0 {
			year++
			if year > maxYear {
				return noTick
			}
			rest = f.month
		}
		month = bits.TrailingZeros16(rest)
		first = dayNumber(year, month)
		if in := f.inMonth(year, month, weekday(first)); in != 0 {
			return (first+int64(bits.TrailingZeros32(in))-1)*day + f.firstTime()
		}
	}
}

// prev returns the last matching wall-clock time at or before w, or noTick.
func (f *fields) prev(w int64) int64 {
	n := floorDiv(w, day)
	year, month, d := civil(n)
	if year > maxYear {
		year, month, d = maxYear, 12, 32
		n = dayNumber(year, month) + 31
	}
	first := n - int64(d-1)
	if f.month>>month&1 != 0 {
		in := f.inMonth(year, month, weekday(first))
		if in>>d&1 != 0 {
			if s := f.timeUpTo(int(w - n*day)); s >= 0 {
				return n*day + int64(s)
			}
		}
		in &= 1<<d - 1
		if in != 0 {
			return (first+int64(bits.Len32(in))-2)*day + f.lastTime()
		}
	}
	for {
		rest := f.month & (1<<month - 1)
		if rest == 0 {
			year--
			if year < minYear {
				return noTick
			}
			rest = f.month
		}
		month = bits.Len16(rest) - 1
		first = dayNumber(year, month)
		if in := f.inMonth(year, month, weekday(first)); in != 0 {
			return (first+int64(bits.Len32(in))-2)*day + f.lastTime()
		}
	}
}

// timeFrom returns the first matching second of a day at or after s, or -1.
func (f *fields) timeFrom(s int) int {
	hour, minute, second := s/3600, s/60%60, s%60
	if f.hour>>hour&1 != 0 {
		if f.minute>>minute&1 != 0 {
			if m := f.second >> second; m != 0 {
				return s + bits.TrailingZeros64(m)
			}
		}
		if m := f.minute >> (minute + 1); m != 0 {
			minute += 1 + bits.TrailingZeros64(m)
			return hour*3600 + minute*60 + bits.TrailingZeros64(f.second)
		}
	}
	if m := f.hour >> (hour + 1); m != 0 {
		hour += 1 + bits.TrailingZeros32(m)
		return hour*3600 + bits.TrailingZeros64(f.minute)*60 + bits.TrailingZeros64(f.second)
	}
	return -1
}

// timeUpTo returns the last matching second of a day at or before s, or -1.
func (f *fields) timeUpTo(s int) int {
	hour, minute, second := s/3600, s/60%60, s%60
	if f.hour>>hour&1 != 0 {
		if f.minute>>minute&1 != 0 {
			if m := f.second & (1<<(second+1) - 1); m != 0 {
				return s - second + bits.Len64(m) - 1
			}
		}
		if m := f.minute & (1<<minute - 1); m != 0 {
			return hour*3600 + (bits.Len64(m)-1)*60 + bits.Len64(f.second) - 1
		}
	}
	if m := f.hour & (1<<hour - 1); m != 0 {
		return (bits.Len32(m)-1)*3600 + (bits.Len64(f.minute)-1)*60 + bits.Len64(f.second) - 1
	}
	return -1
}

func (f *fields) firstTime() int64 {
	return int64(bits.TrailingZeros32(f.hour)*3600 + bits.TrailingZeros64(f.minute)*60 +
		bits.TrailingZeros64(f.second))
}

func (f *fields) lastTime() int64 {
	return int64((bits.Len32(f.hour)-1)*3600 + (bits.Len64(f.minute)-1)*60 +
		bits.Len64(f.second) - 1)
}

// canMatch reports whether the calendar has any day that matches: it looks at
// each month of each of the fourteen kinds of year (leap or not, and seven
// weekdays to begin with), all of which occur in the years that have ticks.
func (f *fields) canMatch() bool {
	for year := 2000; year < 2028; year++ {
		for month := 1; month <= 12; month++ {
			if f.month>>month&1 != 0 && f.inMonth(year, month, weekday(dayNumber(year, month))) != 0 {
				return true
			}
		}
	}
	return false
}

// civil returns the date of a day number (days since 1970-01-01) in the
// Gregorian calendar. Years here begin in March, so that the leap day comes
// last; see Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
func civil(n int64) (year, month, d int) {
	n += 719468 // days from 0000-03-01
	era := floorDiv(n, 146097)
	e := int(n - era*146097) // day of a 400-year era
	y := (e - e/1460 + e/36524 - e/146096) / 365
	yd := e - (365*y + y/4 - y/100)
	m := (5*yd + 2) / 153 // 0 is March
	d = yd - (153*m+2)/5 + 1
	year = int(era)*400 + y
	if m < 10 {
		return year, m + 3, d
	}
	return year + 1, m - 9, d
}

// dayNumber returns the day number of the first of a month; the reverse of
// civil.
func dayNumber(year, month int) int64 {
	if month > 2 {
		month -= 3
	} else {
		month += 9
		year--
	}
	era := floorDiv(int64(year), 400)
	y := year - int(era)*400
	return era*146097 + int64(y*365+y/4-y/100+(153*month+2)/5) - 719468
}

// weekday returns the day of the week of a day number; 0 is Sunday.
func weekday(n int64) int {
	return int((n%7 + 11) % 7) // 1970-01-01 was a Thursday
}

func daysIn(year, month int) int {
	if month == 2 {
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 30 + (month+month>>3)&1
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
