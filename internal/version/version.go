// Package version returns the version of gobtl with which a program was built.
package version

import "runtime/debug"

// module is the path of this module.
const module = "gobtl"

// String returns the version of the module, or the commit of the working copy from which the
// program was built. Examples of the result are "v1.2.0", "1a2b3c4d5e6f" and
// "1a2b3c4d5e6f+changes". If the build has not recorded a version, String returns "devel". Any
// goroutine may call String.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return of(info)
}

// unknown is the version of a build that has recorded no version. A build outside of the repository
// can set the variable unknown by -ldflags "-X gobtl/internal/version.unknown=...", as
// tools/container does.
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
