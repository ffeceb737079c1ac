//! Tests of sockets.

mod tcp_edges;
