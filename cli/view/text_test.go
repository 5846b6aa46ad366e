package view

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		n    int64
		want string
	}{
		{0, "0 B"},
		{1, "1 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{2765, "2.7 KiB"},
		{1 << 20, "1.0 MiB"},
		{1<<20 - 1, "1.0 MiB"},
		{1<<20 - 60, "1023.9 KiB"},
		{13529146982, "12.6 GiB"},
		{1 << 40, "1.0 TiB"},
		{math.MaxInt64, "8.0 EiB"},
		{-2048, "-2.0 KiB"},
	} {
		if got := Bytes(tt.n); got != tt.want {
			t.Errorf("Bytes(%d) = %q, want %q", tt.n, got, tt.want)
		}
	}
	if got, want := BytesOf(10200547328, 26951301530), "9.5 / 25.1 GiB"; got != want {
		t.Errorf("BytesOf = %q, want %q", got, want)
	}
	if got, want := BytesOf(5, 100), "5 / 100 B"; got != want {
		t.Errorf("BytesOf = %q, want %q", got, want)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	if got := Plural(1, "tensor", "tensors") + ", " + Plural(1204, "tensor", "tensors"); got != "1 tensor, 1,204 tensors" {
		t.Errorf("Plural gives %q", got)
	}
}

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0:00", 8 * time.Second: "0:08", 750 * time.Second: "12:30", 3725 * time.Second: "1:02:05", -time.Second: "0:00"} {
		if got := Clock(d); got != want {
			t.Errorf("Clock(%v) = %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{1500 * time.Microsecond: "1.5 ms", 19800 * time.Millisecond: "19.8 s", 200 * time.Second: "3 min 20 s", 7260 * time.Second: "2 h 1 min"} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := Table{
		Columns: []Column{{Head: "NAME", Least: 6}, {Head: "DTYPE"}, {Head: "BYTES", Right: true}},
		Rows:    [][]string{{"model.layers.0.wq", "bf16", "12"}, {"数据", "f32", "4096"}, {"a\x1bb"}},
	}
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, "NAME               DTYPE  BYTES\nmodel.layers.0.wq  bf16      12\n数据               f32     4096\na\\x1bb\n"},
		{26, "NAME          DTYPE  BYTES\nmodel.layer…  bf16      12\n数据          f32     4096\na\\x1bb\n"},
		{5, "NAME    DTYPE  BYTES\nmodel…  bf16      12\n数据    f32     4096\na\\x1bb\n"},
	} {
		var b strings.Builder
		if err := table.Write(&b, Style{Width: tt.width}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != tt.want {
			t.Errorf("in %d columns:\n%swant\n%s", tt.width, got, tt.want)
		}
	}
	var b strings.Builder
	if err := (Table{Columns: make([]Column, 2), Rows: [][]string{{"a", "b"}, {"ccc", "d"}}}).Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "a    b\nccc  d\n"; got != want {
		t.Errorf("without heads: %q, want %q", got, want)
	}
}

func TestHead(t *testing.T) {
	list := []string{"a", "b", "c", "d"}
	for _, tt := range []struct {
		most int
		want []string
	}{
		{4, list}, {3, list}, {2, []string{"a", "b", "… and 2 more (`--all`)"}}, {0, []string{"… and 4 more (`--all`)"}},
	} {
		if got := Head(list, tt.most, "--all"); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Head(%d) = %q, want %q", tt.most, got, tt.want)
		}
	}
	if got := More(1200, ""); got != "… and 1,200 more" {
		t.Errorf("More = %q", got)
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		s     string
		width int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"数据库", 5, "数据…"}, {"数据库", 4, "数…"}, {"abc", 0, "abc"}, {"abc", 1, "…"},
	} {
		got := Cut(tt.s, tt.width)
		if got != tt.want || tt.width > 0 && Width(got) > tt.width {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.s, tt.width, got, tt.want)
		}
	}
}
