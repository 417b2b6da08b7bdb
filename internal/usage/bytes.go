package usage

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// Bytes makes kong keep the exact bytes of values. By default kong passes strings through JSON,
// which replaces each byte that is not UTF-8 by U+FFFD. A path would then name another file.
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
