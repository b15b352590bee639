// Command genproto compiles one .proto file to Go without protoc: the parser and the generator are Go
// modules, so that a fresh machine with nothing but Go can check that the committed code is not stale.
//
//	genproto -import agentkernel/internal/x/xpb -proto ../internal/x/xpb/x.proto
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	src := flag.String("proto", "", "the .proto file; the Go file is written beside it")
	imp := flag.String("import", "", "import path of the generated package")
	flag.Parse()
	if err := generate(*src, *imp); err != nil {
		fmt.Fprintln(os.Stderr, "genproto:", err)
		os.Exit(1)
	}
}

func generate(src, imp string) error {
	if src == "" || imp == "" {
		return errors.New("both -proto and -import are needed")
	}
	dir, name := filepath.Split(src)
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{dir}},
		SourceInfoMode: protocompile.SourceInfoStandard, // keeps the comments
	}
	files, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return err
	}
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String(fmt.Sprintf("paths=source_relative,M%s=%s", name, imp)),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
	})
	if err != nil {
		return err
	}
	for _, f := range plugin.Files {
		if f.Generate {
			internal_gengo.GenerateFile(plugin, f)
		}
	}
	resp := plugin.Response()
	if resp.Error != nil {
		return errors.New(resp.GetError())
	}
	for _, f := range resp.GetFile() {
		if err := os.WriteFile(filepath.Join(dir, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
