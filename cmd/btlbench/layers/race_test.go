//go:build race

package layers

func init() { raceDetector = true }
