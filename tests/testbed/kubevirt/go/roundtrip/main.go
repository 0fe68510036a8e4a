// Licensed under the Apache License, Version 2.0 (the "License"); you may
// not use this file except in compliance with the License. You may obtain
// a copy of the License at
//
//      http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
// WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
// License for the specific language governing permissions and limitations
// under the License.

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
