module sriov-rt.test/absent/virt-template-engine

go 1.26.0
