//go:build !race

package udp_test

// raceDetector makes everything several times as slow.
const raceDetector = false
