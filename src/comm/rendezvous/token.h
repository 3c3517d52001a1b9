// Who may join a run whose workers or replicas are processes: whoever has its token.
//
// The token is a shared secret. The key pairs of both sides for CurveZMQ (Curve25519, XSalsa20-Poly1305;
// rfc.zeromq.org/spec/26) are made from it, so that each side proves to the other that it has the token, nothing of it
// travels, and everything is encrypted. Who listens to the connection's beginning could try out tokens on what it
// heard: a token must be long, see kLeastToken.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

/// Characters of a token, at least: of a random one, enough that nobody can try them all.
inline constexpr size_t kLeastToken = 16;
inline constexpr const char* kTokenVariable = "TRIREME_TOKEN";

/// Keys as CurveZMQ has them: 32 raw bytes each.
struct CurveKeys {
  std::string server_secret, server_public;
  std::string client_secret, client_public;
};

/// `token` may be "": then anybody can make the keys.
CurveKeys make_curve_keys(std::string_view token);

/// 128 random bits, in hexadecimal digits.
std::string random_token();

/// The first line of the file; where `file` is empty, what TRIREME_TOKEN says; "": there is none. Errors (user): no
/// such file, a token that is too short. Messages do not have it.
std::string read_token(const std::filesystem::path& file);

/// Whether only this machine can reach it: "localhost", "127.0.0.1", "lo", "[::1]".
bool is_loopback(std::string_view host);

/// "tcp://10.0.0.1:29500", "tcp://[::1]:29500"
std::string endpoint_of(const std::string& address, int port);

/// Where to listen so that others reach it at address:port: on loopback where that is, else on all interfaces.
/// "tcp://*:29500"
std::string listening_endpoint(const std::string& address, int port);

/// Errors (user): an endpoint that is none ("tcp://127.0.0.1:5555", "tcp://*:5555"; a port of * is any free one where
/// `listens`); one that others than this machine can reach, without a token.
void check_endpoint(const std::string& endpoint, bool listens, bool has_token);

}  // namespace trireme
