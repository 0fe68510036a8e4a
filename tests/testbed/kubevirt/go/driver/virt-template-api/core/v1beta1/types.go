// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type VirtualMachineTemplate struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object { return t }
