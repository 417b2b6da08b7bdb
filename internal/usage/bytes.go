package usage

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// Bytes has kong take values as they are. By itself it carries strings through JSON, which puts
// U+FFFD for each byte that is no UTF-8: a path would be that of another file.
func Bytes() kong.Option {
	return kong.KindMapper(reflect.String, kong.MapperFunc(
		func(ctx *kong.DecodeContext, target reflect.Value) error {
			token, err := ctx.Scan.PopValue("string")
			if err != nil {
				return err
			}
			target.SetString(fmt.Sprint(token.Value))
			return nil
		}))
}
