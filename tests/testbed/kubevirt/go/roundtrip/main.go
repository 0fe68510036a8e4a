// SPDX-License-Identifier: Apache-2.0

// Command roundtrip reads domains, NUL between them, and prints a JSON list
// of what libvirtxml makes of each: what KubeVirt defines.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"libvirt.org/go/libvirtxml"
)

type found struct {
	XML   string `json:"xml,omitempty"`
	Error string `json:"error,omitempty"`
}

func main() {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	results := []found{}
	for _, text := range bytes.Split(data, []byte{0}) {
		results = append(results, pass(string(text)))
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}

func pass(text string) found {
	domain := &libvirtxml.Domain{}
	if err := domain.Unmarshal(text); err != nil {
		return found{Error: err.Error()}
	}
	written, err := domain.Marshal()
	if err != nil {
		return found{Error: err.Error()}
	}
	return found{XML: written}
}
