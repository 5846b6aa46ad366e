package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var units = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Bytes writes a number of bytes for people: "512 B", "2.7 KiB", "12.6 GiB".
func Bytes(n int64) string {
	v, unit := scale(n)
	return v + " " + unit
}

// BytesOf writes a part of a number of bytes, both in the unit of the whole:
// "9.5 / 25.1 GiB".
func BytesOf(part, whole int64) string {
	v, unit := scale(whole)
	return in(part, unit) + " / " + v + " " + unit
}

func scale(n int64) (value, unit string) {
	i, v := 0, float64(n)
	for i < len(units)-1 && (v >= 1024 || v <= -1024) {
		v /= 1024
		i++
	}
	if i > 0 && i < len(units)-1 && (v >= 1023.95 || v <= -1023.95) { // would be written as 1024.0
		v /= 1024
		i++
	}
	if i == 0 {
		return strconv.FormatInt(n, 10), units[0]
	}
	return strconv.FormatFloat(v, 'f', 1, 64), units[i]
}

// in writes a number of bytes in a unit.
func in(n int64, unit string) string {
	v := float64(n)
	for _, u := range units {
		if u == unit {
			break
		}
		v /= 1024
	}
	if unit == units[0] {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// Count writes a number with separators: "1,234,567".
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i := range len(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(s[i])
	}
	return sign + b.String()
}

// Plural writes a count with its noun: "1 tensor", "1,204 tensors".
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Clock writes a duration as a clock does: "0:08", "12:30", "1:02:05".
func Clock(d time.Duration) string {
	s := int64(d / time.Second)
	if s < 0 {
		s = 0
	}
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// Duration writes a duration for a sentence: "19.8 s", "3 min 20 s".
func Duration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

// Rate writes bytes per second: "1.2 GiB/s".
func Rate(perSecond float64) string {
	return Bytes(int64(min(perSecond, 1<<62))) + "/s"
}
