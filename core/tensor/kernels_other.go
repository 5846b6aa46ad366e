//go:build !amd64

package tensor

func chooseKernels() *kernelSet { return plainKernels() }
