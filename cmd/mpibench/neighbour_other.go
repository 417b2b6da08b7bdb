//go:build !unix

package main

import "errors"

func ownSession() error { return errors.ErrUnsupported }

func beNice() error { return errors.ErrUnsupported }
