package layers

import (
	"time"

	"gobtl/internal/mono"
)

// clockBase is the zero instant of this process's clock.
var clockBase = time.Now()

// clock reads the monotonic clock in about 25 ns, and therefore a hot loop reads the clock only
// once per poll.
func clock() mono.Time { return mono.Time(time.Since(clockBase)) }
