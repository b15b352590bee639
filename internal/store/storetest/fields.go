package storetest

import (
	"reflect"
	"time"
)

// EachField sets the fields of the struct behind ptr one after the other, those of structs in it too, to something that
// is not their zero value, and calls visit with the name of each. Afterwards the struct is what it was. It finds what
// looks at some fields only, also when there is a new one.
func EachField(ptr any, visit func(name string)) {
	eachField(reflect.ValueOf(ptr).Elem(), "", visit)
}

func eachField(v reflect.Value, prefix string, visit func(string)) {
	for i := range v.NumField() {
		f, name := v.Field(i), prefix+v.Type().Field(i).Name
		if !f.CanSet() {
			continue
		}
		if f.Kind() == reflect.Struct && f.NumField() > 0 && f.Type().Field(0).IsExported() {
			eachField(f, name+".", visit)
			continue
		}
		old := reflect.New(f.Type()).Elem()
		old.Set(f)
		if fill(f) {
			visit(name)
		}
		f.Set(old)
	}
}

// fill changes a value. False: there is nothing to change it to.
func fill(f reflect.Value) bool {
	switch f.Kind() {
	case reflect.String:
		f.SetString(f.String() + "x")
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.SetInt(f.Int() + 1)
	case reflect.Float32, reflect.Float64:
		f.SetFloat(f.Float() + 1.5)
	case reflect.Slice:
		f.Set(reflect.Append(f, reflect.New(f.Type().Elem()).Elem()))
	case reflect.Map:
		m := reflect.MakeMap(f.Type())
		m.SetMapIndex(reflect.New(f.Type().Key()).Elem(), reflect.New(f.Type().Elem()).Elem())
		f.Set(m)
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	case reflect.Struct:
		at, ok := f.Addr().Interface().(*time.Time)
		if !ok {
			return false
		}
		*at = time.UnixMicro(at.UnixMicro() + 1e15).UTC()
	default:
		return false
	}
	return true
}
