package port

import (
	"encoding/hex"
	"errors"

	"gobtl/fabric"
)

// ErrNoText means that the addresses of the fabric have no textual form.
var ErrNoText = errors.New("port: the fabric's addresses have no textual form")

// ParseAddress converts a textual address to the names (binary addresses) of the two channels.
// ParseAddress returns ErrNoText if the fabric has no textual addresses, or an error of the
// provider.
func (p *Port) ParseAddress(address string) (command, data []byte, err error) {
	a, ok := p.Dom.(fabric.Addresser)
	if !ok {
		return nil, nil, ErrNoText
	}
	command, data, err = a.ParseAddress(address)
	if errors.Is(err, fabric.ErrNotSupported) {
		err = errors.Join(ErrNoText, err)
	}
	return command, data, err
}

// FormatName returns the name (binary address) of a fabric endpoint as readable text. For a fabric
// without textual addresses, the text is hexadecimal.
func (p *Port) FormatName(name []byte) string {
	if a, ok := p.Dom.(fabric.Addresser); ok {
		return a.FormatName(name)
	}
	return hex.EncodeToString(name)
}

// FormatPair returns a text with the names of the command channel and the data channel, in the
// notation of ParseAddress, or an empty text for a fabric without textual addresses.
func (p *Port) FormatPair(command, data []byte) string {
	a, ok := p.Dom.(fabric.Addresser)
	if !ok {
		return ""
	}
	first, second := a.FormatName(command), a.FormatName(data)
	for i := len(second); i > 0; i-- {
		if second[i-1] == ':' {
			return first + "," + second[i:]
		}
	}
	return first
}
