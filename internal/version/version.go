// Package version tells a program which version of gobtl it contains.
package version

import "runtime/debug"

// The constant "module" is the path of this module.
const module = "gobtl"

// String returns the version of gobtl in this program, or the commit from which the program was
// built. Examples of the result of String are "v1.2.0", "1a2b3c4d5e6f" and "1a2b3c4d5e6f+changes".
// If the program was built without version information, String returns "devel". Any goroutine may
// call String.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return of(info)
}

// The variable "unknown" is the version that String returns if the program was built without
// version information. A build outside of the git repository can set the reported version by
// -ldflags "-X gobtl/internal/version.unknown=...", as tools/container does.
var unknown = "devel"

func of(info *debug.BuildInfo) string {
	if info.Main.Path != module {
		for _, d := range info.Deps {
			if d.Path == module {
				return d.Version
			}
		}
		return unknown
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, modified := unknown, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	return revision + modified
}
