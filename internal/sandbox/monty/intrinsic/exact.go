package intrinsic

import (
	"encoding/json"
	"math"
	"math/big"
)

// Sums are kept exactly, as CPython's math.fsum and statistics do: a float is an integer times a power of
// two, so that a sum is one big integer over 2^1074.

const unit = 1074 // 2^-1074 is the smallest float

// maxExact bounds the work of an exact sum, in bits added: forty million floats, or an int of a few thousand
// digits among a million numbers.
const maxExact = 1 << 37

// exact is a list of numbers summed without rounding.
type exact struct {
	n           int
	floats      bool
	special     float64 // of infinities and NaN; 0 if there are none
	hasSpecial  bool
	sum, square *big.Int // over 2^unit and 2^(2*unit)
}

func (a arguments) exact(i int, squares bool) (exact, error) {
	e := exact{sum: new(big.Int), square: new(big.Int)}
	var term, sq big.Int
	room := int64(maxExact)
	err := a.each(i, func(raw json.RawMessage) error {
		e.n++
		v, err := parseNumber(raw)
		if err != nil {
			return typeError("can't convert type to numerator/denominator: a number is required")
		}
		// One huge int makes every further addition as long as it is.
		if room -= int64(e.sum.BitLen()); room < 0 {
			return &pyError{"OverflowError", "the numbers are too large to be summed exactly"}
		}
		if v.isFloat {
			e.floats = true
			if math.IsNaN(v.float) || math.IsInf(v.float, 0) {
				e.special += v.float
				e.hasSpecial = true
				return nil
			}
			scaleFloat(&term, v.float)
		} else {
			term.Lsh(v.int, unit)
		}
		e.sum.Add(e.sum, &term)
		if squares {
			e.square.Add(e.square, sq.Mul(&term, &term))
		}
		return nil
	})
	return e, err
}

// scaleFloat sets z to f * 2^unit, which is whole.
func scaleFloat(z *big.Int, f float64) {
	frac, exp := math.Frexp(f)
	z.SetInt64(int64(frac * (1 << 53)))
	shift := exp - 53 + unit
	if shift >= 0 {
		z.Lsh(z, uint(shift))
		return
	}
	z.Rsh(z, uint(-shift)) // a subnormal: the low bits are zero
}

// ratio gives num / (den * 2^bits).
func ratio(num, den *big.Int, bits uint) *big.Rat {
	return new(big.Rat).SetFrac(num, new(big.Int).Lsh(den, bits))
}

// appendRatio writes a result as statistics does: an int if all data were and it is whole, else a float.
func appendRatio(r *big.Rat, floats bool) (json.RawMessage, error) {
	if !floats && r.IsInt() {
		return json.RawMessage(r.Num().String()), nil
	}
	f, _ := r.Float64()
	if math.IsInf(f, 0) {
		return nil, &pyError{"OverflowError", "integer division result too large for a float"}
	}
	return appendFloat(nil, f), nil
}

// fsum(numbers) -> float.
func fsum(a arguments) (json.RawMessage, error) {
	e, err := a.exact(0, false)
	if err != nil {
		return nil, typeError("must be real number")
	}
	if e.hasSpecial {
		if math.IsNaN(e.special) {
			return appendFloat(nil, math.NaN()), nil
		}
		return appendFloat(nil, e.special), nil
	}
	return appendRatio(ratio(e.sum, big.NewInt(1), unit), true)
}

// mean(numbers) -> number.
func mean(a arguments) (json.RawMessage, error) {
	e, err := a.exact(0, false)
	if err != nil {
		return nil, err
	}
	if e.n == 0 {
		return nil, valueError("mean requires at least one data point")
	}
	if e.hasSpecial {
		return appendFloat(nil, e.special), nil
	}
	return appendRatio(ratio(e.sum, big.NewInt(int64(e.n)), unit), e.floats)
}

// overSum(number, numbers) -> float: the number over the exact sum of the others.
func overSum(a arguments) (json.RawMessage, error) {
	over, err := parseNumber(a.raw(0))
	if err != nil {
		return nil, err
	}
	e, err := a.exact(1, false)
	if err != nil {
		return nil, err
	}
	top := new(big.Rat)
	if !over.isFloat {
		top.SetInt(over.int)
	} else if top.SetFloat64(over.float) == nil {
		return appendFloat(nil, math.NaN()), nil
	}
	if e.hasSpecial || e.sum.Sign() == 0 {
		return appendFloat(nil, 0), nil
	}
	return appendRatio(top.Quo(top, ratio(e.sum, big.NewInt(1), unit)), true)
}

// variance(numbers, taken, center or None, root) -> number: the sum of squared deviations from the mean (or
// center) over n-taken, or its square root.
func variance(a arguments) (json.RawMessage, error) {
	e, err := a.exact(0, true)
	if err != nil {
		return nil, err
	}
	taken, err := a.integer(1, 0, 1)
	if err != nil {
		return nil, err
	}
	if int64(e.n) <= taken {
		return nil, valueError("variance requires at least %d data points", taken+1)
	}
	if e.hasSpecial {
		return appendFloat(nil, math.NaN()), nil
	}
	n := big.NewInt(int64(e.n))
	total := new(big.Rat)
	if string(a.raw(2)) == "null" {
		// sum of squares minus the square of the sum over n: exact, so that nothing cancels
		total.Sub(ratio(e.square, big.NewInt(1), 2*unit), ratio(new(big.Int).Mul(e.sum, e.sum), n, 2*unit))
	} else {
		c, floats, err := a.center(2)
		if err != nil {
			return nil, err
		}
		e.floats = e.floats || floats
		twice := new(big.Rat).Mul(c, new(big.Rat).SetInt64(2))
		total.Sub(ratio(e.square, big.NewInt(1), 2*unit), twice.Mul(twice, ratio(e.sum, big.NewInt(1), unit)))
		c.Mul(c, c)
		total.Add(total, c.Mul(c, new(big.Rat).SetInt(n)))
	}
	total.Quo(total, new(big.Rat).SetInt64(int64(e.n)-taken))
	if !a.flag(3) {
		return appendRatio(total, e.floats)
	}
	return appendFloat(nil, root(total)), nil
}

func (a arguments) center(i int) (c *big.Rat, floats bool, err error) {
	v, err := parseNumber(a.raw(i))
	if err != nil {
		return nil, false, err
	}
	if !v.isFloat {
		return new(big.Rat).SetInt(v.int), false, nil
	}
	c = new(big.Rat).SetFloat64(v.float)
	if c == nil {
		return nil, true, valueError("the center must be finite")
	}
	return c, true, nil
}

// root is the square root of r, rounded once.
func root(r *big.Rat) float64 {
	const bits = 256
	f := new(big.Float).SetPrec(bits).SetRat(r)
	if f.Sign() <= 0 {
		return 0
	}
	out, _ := f.Sqrt(f).Float64()
	return out
}
