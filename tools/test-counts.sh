#!/bin/sh
# gotestsum runs this script after the tests, and sets the variables. Each run of a test that failed
# and ran again counts.
passed=$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED))
echo "$passed passed, $((TESTS_FAILED + TESTS_ERRORS)) failed, $TESTS_SKIPPED skipped"
