package main

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
)

// plain is a codec for plain bytes, without the work of protocol buffers.
type plain struct{}

func (plain) Name() string { return "plain" }

func (plain) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not bytes", v)
	}
	return *b, nil
}

func (plain) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not bytes", v)
	}
	*b = append((*b)[:0], data...)
	return nil
}

const grpcMethod = "/gobtl.Echo/Answer"

// grpcBytesMax is larger than the largest message, because gRPC's default limit is 4 MiB.
const grpcBytesMax = 64 << 20

func answerGRPC(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
) (any, error) {
	var request []byte
	if err := decode(&request); err != nil {
		return nil, err
	}
	answer := reply(request)
	return &answer, nil
}

func serveGRPC() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	encoding.RegisterCodec(plain{})
	server := grpc.NewServer(grpc.MaxRecvMsgSize(grpcBytesMax), grpc.MaxSendMsgSize(grpcBytesMax))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "gobtl.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Answer", Handler: answerGRPC}},
	}, nil)
	go func() { _ = server.Serve(l) }() // It ends with the process.
	return l.Addr().String(), nil
}

type grpcCaller struct{ conn *grpc.ClientConn }

func dialGRPC(addr string) (caller, error) {
	encoding.RegisterCodec(plain{})
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.CallContentSubtype(plain{}.Name()),
			grpc.MaxCallRecvMsgSize(grpcBytesMax), grpc.MaxCallSendMsgSize(grpcBytesMax)))
	return grpcCaller{conn}, err
}

func (c grpcCaller) call(request []byte) (answer []byte, err error) {
	err = c.conn.Invoke(context.Background(), grpcMethod, &request, &answer)
	return answer, err
}

func (c grpcCaller) close() error { return c.conn.Close() }
