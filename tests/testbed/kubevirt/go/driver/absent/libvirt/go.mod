module sriov-rt.test/absent/libvirt

go 1.26.0
