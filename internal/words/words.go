// Package words names the values of enumerations. It has no state.
package words

import "strconv"

// Name returns the name of an enumerated value. For a value without a name, Name returns the name
// of the type and the number of the value, such as "Event(9)".
func Name(names []string, value int, typeName string) string {
	if value >= 0 && value < len(names) && names[value] != "" {
		return names[value]
	}
	return typeName + "(" + strconv.Itoa(value) + ")"
}
