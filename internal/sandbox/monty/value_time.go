package monty

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// clock is a date, time or datetime of Python, taken apart.
type clock struct {
	year, month, day, hour, minute, second, micro int
	offset                                        int // seconds east of UTC
	aware                                         bool
	zone                                          string // name of the offset, may be empty
}

// appendTimeJSON writes date, time, datetime, timedelta and timezone.
func appendTimeJSON(dst []byte, num protowire.Number, body []byte) ([]byte, error) {
	var v [10]int64
	var seen [10]bool
	var name []byte
	err := eachField(body, func(field protowire.Number, n uint64, b []byte) error {
		switch {
		case b != nil:
			name = b // only timezone names are text in these messages
		case int(field) < len(v):
			v[field], seen[field] = int64(int32(n)), true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch num {
	case fieldDate:
		dst = append(dst, `{"$date":"`...)
		dst = appendDate(dst, v[1], v[2], v[3])
	case fieldTime:
		dst = append(dst, `{"$time":"`...)
		dst = appendClock(dst, v[1], v[2], v[3], v[4])
		if seen[5] {
			dst = appendOffset(dst, v[5])
		}
	case fieldDateTime:
		dst = append(dst, `{"$datetime":"`...)
		dst = append(appendDate(dst, v[1], v[2], v[3]), 'T')
		dst = appendClock(dst, v[4], v[5], v[6], v[7])
		if seen[8] {
			dst = appendOffset(dst, v[8])
		}
	case fieldTimeDelta:
		return fmt.Appendf(dst, `{"$timedelta":[%d,%d,%d]}`, v[1], v[2], v[3]), nil
	case fieldTimeZone:
		dst = fmt.Appendf(dst, `{"$timezone":[%d,`, v[1])
		if name == nil {
			return append(dst, "null]}"...), nil
		}
		if dst, err = appendStringJSON(dst, name); err != nil {
			return nil, err
		}
		return append(dst, "]}"...), nil
	}
	return append(dst, `"}`...), nil
}

func appendDate(dst []byte, year, month, day int64) []byte {
	dst = appendPadded(dst, year, 4)
	dst = appendPadded(append(dst, '-'), month, 2)
	return appendPadded(append(dst, '-'), day, 2)
}

func appendClock(dst []byte, hour, minute, second, micro int64) []byte {
	dst = appendPadded(dst, hour, 2)
	dst = appendPadded(append(dst, ':'), minute, 2)
	dst = appendPadded(append(dst, ':'), second, 2)
	if micro != 0 {
		dst = appendPadded(append(dst, '.'), micro, 6)
	}
	return dst
}

func appendOffset(dst []byte, seconds int64) []byte {
	sign := byte('+')
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	dst = appendPadded(append(dst, sign), seconds/3600, 2)
	dst = appendPadded(append(dst, ':'), seconds/60%60, 2)
	if seconds%60 != 0 {
		dst = appendPadded(append(dst, ':'), seconds%60, 2)
	}
	return dst
}

func appendPadded(dst []byte, n int64, width int) []byte {
	s := strconv.FormatInt(n, 10)
	for i := len(s); i < width; i++ {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// isoScanner reads the ISO 8601 forms that docs/values.md defines.
type isoScanner struct {
	s  string
	ok bool
}

// digits takes exactly n digits.
func (p *isoScanner) digits(n int) int {
	if len(p.s) < n {
		p.ok = false
		return 0
	}
	v := 0
	for _, c := range []byte(p.s[:n]) {
		if c < '0' || c > '9' {
			p.ok = false
			return 0
		}
		v = v*10 + int(c-'0')
	}
	p.s = p.s[n:]
	return v
}

// next takes the byte c if it comes next.
func (p *isoScanner) next(c byte) bool {
	if len(p.s) == 0 || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *isoScanner) expect(c byte) { p.ok = p.next(c) && p.ok }

func parseISO(s string, date, timeOfDay bool) (c clock, ok bool) {
	p := &isoScanner{s: s, ok: true}
	if date {
		c.year = p.digits(4)
		p.expect('-')
		c.month = p.digits(2)
		p.expect('-')
		c.day = p.digits(2)
	}
	if date && timeOfDay && !p.next(' ') {
		p.expect('T')
	}
	if timeOfDay {
		c.parseTime(p)
	}
	return c, p.ok && p.s == "" && c.valid(date)
}

func (c *clock) parseTime(p *isoScanner) {
	c.hour = p.digits(2)
	p.expect(':')
	c.minute = p.digits(2)
	p.expect(':')
	c.second = p.digits(2)
	if p.next('.') {
		c.micro = p.digits(6)
	}
	var sign int
	switch {
	case p.next('Z'):
		c.aware = true
		return
	case p.next('+'):
		sign = 1
	case p.next('-'):
		sign = -1
	default:
		return
	}
	hours := p.digits(2)
	p.expect(':')
	minutes, seconds := p.digits(2), 0
	if p.next(':') {
		seconds = p.digits(2)
	}
	p.ok = p.ok && hours < 24 && minutes < 60 && seconds < 60
	c.aware, c.offset = true, sign*(hours*3600+minutes*60+seconds)
}

// valid refuses what the engine would refuse, since it ends the whole program over a bad value.
func (c *clock) valid(date bool) bool {
	if c.hour > 23 || c.minute > 59 || c.second > 59 {
		return false
	}
	if !date {
		return true
	}
	if c.year < 1 || c.year > 9999 || c.month < 1 || c.month > 12 || c.day < 1 {
		return false
	}
	return c.day <= time.Date(c.year, time.Month(c.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// appendClockValue writes a datetime (or with field fieldDate a date, with fieldTime a time) as a value of
// the engine.
func appendClockValue(dst []byte, field protowire.Number, c clock) []byte {
	var body []byte
	put := func(num protowire.Number, v int) {
		if v != 0 {
			body = protowire.AppendTag(body, num, protowire.VarintType)
			body = protowire.AppendVarint(body, uint64(int64(v)))
		}
	}
	next := protowire.Number(1)
	all := func(vs ...int) {
		for _, v := range vs {
			put(next, v)
			next++
		}
	}
	if field != fieldTime {
		all(c.year, c.month, c.day)
	}
	if field != fieldDate {
		all(c.hour, c.minute, c.second, c.micro)
		if c.aware { // explicit, also when zero: its presence makes the value aware
			body = protowire.AppendTag(body, next, protowire.VarintType)
			body = protowire.AppendVarint(body, uint64(int64(c.offset)))
			if c.zone != "" {
				body = appendStr(body, next+1, c.zone)
			}
		}
	}
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendBytes(dst, body)
}
