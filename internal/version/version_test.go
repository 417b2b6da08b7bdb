package version

import (
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	t.Parallel()
	own := func(version string, settings ...debug.BuildSetting) debug.BuildInfo {
		return debug.BuildInfo{Main: debug.Module{Path: module, Version: version}, Settings: settings}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	used := debug.BuildInfo{
		Main: debug.Module{Path: "example.org/own", Version: "v9.0.0"},
		Deps: []*debug.Module{
			{Path: "example.org/x", Version: "v8.0.0"}, {Path: module, Version: "v1.2.0"},
		},
	}
	for want, info := range map[string]debug.BuildInfo{
		"v1.0.0":               own("v1.0.0", commit),
		"0123456789ab":         own("(devel)", commit),
		"0123456789ab+changes": own("", commit, changed),
		unknown:                own("(devel)"),
		"v1.2.0":               used,
	} {
		if got := of(&info); got != want {
			t.Errorf("%v: %s, want %s", info, got, want)
		}
	}
	if got := of(&debug.BuildInfo{Main: debug.Module{Path: "example.org/own"}}); got != unknown {
		t.Errorf("a program without gobtl: %s", got)
	}
}
