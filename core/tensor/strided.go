package tensor

import "unsafe"

// element is the bytes of one element. Elements need not be aligned: all
// processors that this program is built for load and store them anywhere.
type element interface {
	uint8 | uint16 | uint32 | uint64 | wide
}

// wide is an element of sixteen bytes.
type wide [2]uint64

// strided copies the elements of one dim.
func strided[E element](p pair, x dim) {
	i := int64(0)
	for ; i+4 <= x.n; i += 4 {
		d, s := unsafe.Add(p.dst, i*x.dst), unsafe.Add(p.src, i*x.src)
		e0 := *(*E)(s)
		e1 := *(*E)(unsafe.Add(s, x.src))
		e2 := *(*E)(unsafe.Add(s, 2*x.src))
		e3 := *(*E)(unsafe.Add(s, 3*x.src))
		*(*E)(d) = e0
		*(*E)(unsafe.Add(d, x.dst)) = e1
		*(*E)(unsafe.Add(d, 2*x.dst)) = e2
		*(*E)(unsafe.Add(d, 3*x.dst)) = e3
	}
	for ; i < x.n; i++ {
		*(*E)(unsafe.Add(p.dst, i*x.dst)) = *(*E)(unsafe.Add(p.src, i*x.src))
	}
}

// lines copies a tile, one line of b after the other.
func lines[E element](p pair, a, b dim) {
	for i := range a.n {
		strided[E](pair{unsafe.Add(p.dst, i*a.dst), unsafe.Add(p.src, i*a.src)}, b)
	}
}

// transpose1 transposes a tile of bytes that is dense along a in the source and
// along b in the target, eight by eight.
func transpose1(p pair, a, b dim) { squares[uint8](p, a, b, 8, eight1) }

// transpose2 does the same with elements of two bytes, four by four.
func transpose2(p pair, a, b dim) { squares[uint16](p, a, b, 4, four2) }

// squares covers a tile with squares of n by n elements and copies what is left
// at two sides in lines.
func squares[E element](p pair, a, b dim, n int64, square func(d unsafe.Pointer, dst int64, s unsafe.Pointer, src int64)) {
	an, bn := a.n&^(n-1), b.n&^(n-1)
	for i := int64(0); i < an; i += n {
		for j := int64(0); j < bn; j += n {
			square(unsafe.Add(p.dst, i*a.dst+j*b.dst), a.dst, unsafe.Add(p.src, i*a.src+j*b.src), b.src)
		}
	}
	if rest := a.n - an; rest > 0 {
		edge := pair{unsafe.Add(p.dst, an*a.dst), unsafe.Add(p.src, an*a.src)}
		lines[E](edge, dim{rest, a.dst, a.src}, b)
	}
	if rest := b.n - bn; rest > 0 {
		edge := pair{unsafe.Add(p.dst, bn*b.dst), unsafe.Add(p.src, bn*b.src)}
		lines[E](edge, dim{an, a.dst, a.src}, dim{rest, b.dst, b.src})
	}
}

// four2 transposes four lines of four elements of two bytes.
func four2(d unsafe.Pointer, dst int64, s unsafe.Pointer, src int64) {
	const even, odd = 0x0000ffff0000ffff, 0xffff0000ffff0000
	const low, high = 0x00000000ffffffff, 0xffffffff00000000
	r0 := load8(s)
	r1 := load8(unsafe.Add(s, src))
	r2 := load8(unsafe.Add(s, 2*src))
	r3 := load8(unsafe.Add(s, 3*src))
	a0, a1 := r0&even|r1<<16&odd, r0>>16&even|r1&odd
	a2, a3 := r2&even|r3<<16&odd, r2>>16&even|r3&odd
	store8(d, a0&low|a2<<32)
	store8(unsafe.Add(d, dst), a1&low|a3<<32)
	store8(unsafe.Add(d, 2*dst), a0>>32|a2&high)
	store8(unsafe.Add(d, 3*dst), a1>>32|a3&high)
}

// eight1 transposes eight lines of eight bytes: squares of one, two and four
// are exchanged across the diagonal.
func eight1(d unsafe.Pointer, dst int64, s unsafe.Pointer, src int64) {
	var r [8]uint64
	for i := range r {
		r[i] = load8(unsafe.Add(s, int64(i)*src))
	}
	for i := 0; i < 8; i += 2 {
		t := (r[i]>>8 ^ r[i+1]) & 0x00ff00ff00ff00ff
		r[i], r[i+1] = r[i]^t<<8, r[i+1]^t
	}
	for _, i := range [...]int{0, 1, 4, 5} {
		t := (r[i]>>16 ^ r[i+2]) & 0x0000ffff0000ffff
		r[i], r[i+2] = r[i]^t<<16, r[i+2]^t
	}
	for i := range 4 {
		t := (r[i]>>32 ^ r[i+4]) & 0x00000000ffffffff
		r[i], r[i+4] = r[i]^t<<32, r[i+4]^t
	}
	for i := range r {
		store8(unsafe.Add(d, int64(i)*dst), r[i])
	}
}

func load8(p unsafe.Pointer) uint64 { return le.Uint64((*[8]byte)(p)[:]) }

func store8(p unsafe.Pointer, v uint64) { le.PutUint64((*[8]byte)(p)[:], v) }
