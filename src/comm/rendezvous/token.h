// The token of a run: only processes that have it may join the run's workers or replicas.
//
// The token is a shared secret. The key pairs of both sides for CurveZMQ (Curve25519, XSalsa20-Poly1305;
// rfc.zeromq.org/spec/26) are derived from it. So each side proves to the other that it has the token, no part of it is
// transferred, and everything is encrypted. An eavesdropper on the connection's beginning could try tokens offline: so
// a token must be long, see kLeastToken.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

/// Minimum number of characters of a token. A random token of this length cannot be found by trying.
inline constexpr size_t kLeastToken = 16;
inline constexpr const char* kTokenVariable = "TRIREME_TOKEN";

/// Keys in CurveZMQ's form: 32 raw bytes each.
struct CurveKeys {
  std::string server_secret, server_public;
  std::string client_secret, client_public;
};

/// `token` may be "": then every process can make the keys.
CurveKeys make_curve_keys(std::string_view token);

/// Returns 128 random bits as hexadecimal digits.
std::string random_token();

/// Returns the first line of the file; if `file` is empty, the value of TRIREME_TOKEN; "" if there is none. Errors
/// (user): no such file, a token that is too short. Error messages do not contain the token.
std::string read_token(const std::filesystem::path& file);

/// True if only this machine can reach `host`: "localhost", "127.0.0.1", "lo", "[::1]".
bool is_loopback(std::string_view host);

/// "tcp://10.0.0.1:29500", "tcp://[::1]:29500"
std::string endpoint_of(const std::string& address, int port);

/// Returns the endpoint to listen on so that other ranks reach it at address:port: on the loopback if `address` is one,
/// otherwise on all interfaces, "tcp://*:29500", or "tcp://[::]:29500" if it is an IPv6 address (IPv4 included).
std::string listening_endpoint(const std::string& address, int port);

/// Errors (user): a malformed endpoint (correct: "tcp://127.0.0.1:5555", "tcp://*:5555"; with `listens`, port * means
/// any free one); an endpoint that other machines can reach, without a token.
void check_endpoint(const std::string& endpoint, bool listens, bool has_token);

}  // namespace trireme
