package usage

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// Bytes is an option for kong that keeps the exact bytes of command-line values. By default, kong
// passes the values of flags through JSON, which replaces each byte that is not UTF-8 by U+FFFD.
// Without the option Bytes, kong would change file names on the command line that are not valid
// UTF-8.
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
