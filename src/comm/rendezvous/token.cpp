#include "comm/rendezvous/token.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "trireme/error.h"

namespace trireme {
namespace {

// crypto_generichash uses these as keys of at least 16 bytes, so the same token gives other keys in other programs
constexpr std::string_view kServerLabel = "trireme replicas: server, version 1";
constexpr std::string_view kClientLabel = "trireme replicas: client, version 1";
static_assert(kServerLabel.size() <= crypto_generichash_KEYBYTES_MAX &&
              kServerLabel.size() >= crypto_generichash_KEYBYTES_MIN);

constexpr size_t kKeyBytes = crypto_scalarmult_curve25519_SCALARBYTES;
constexpr size_t kRandomBytes = 16;
constexpr int kLargestPort = 65535;

using Bytes = std::array<unsigned char, kKeyBytes>;

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

void start_sodium() { check_internal(sodium_init() >= 0, "libsodium starts"); }

void make_pair(std::string_view token, std::string_view label, std::string& secret, std::string& public_key) {
  Bytes scalar, point;
  crypto_generichash(scalar.data(), scalar.size(), reinterpret_cast<const unsigned char*>(token.data()), token.size(),
                     reinterpret_cast<const unsigned char*>(label.data()), label.size());
  crypto_scalarmult_curve25519_base(point.data(), scalar.data());
  secret = text_of(scalar);
  public_key = text_of(point);
  sodium_memzero(scalar.data(), scalar.size());
}

std::string first_line_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!in || !std::getline(in, line))
    fail_user({"--token-file", file.string(), "cannot be read, or is empty",
               "write a token in its first line: openssl rand -hex 16"});
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

bool is_ipv6_address(std::string_view address) { return address.find(':') != address.npos; }

bool is_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || text.find_first_not_of("0123456789") != text.npos) return false;
  return std::atoi(std::string(text).c_str()) <= kLargestPort;
}

}  // namespace

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "[::1]" || host == "::1" || host == "lo" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

std::string endpoint_of(const std::string& address, int port) {
  return is_ipv6_address(address) && !address.starts_with('[') ? fmt::format("tcp://[{}]:{}", address, port)
                                                               : fmt::format("tcp://{}:{}", address, port);
}

std::string listening_endpoint(const std::string& address, int port) {
  if (is_loopback(address)) return endpoint_of(address, port);
  return is_ipv6_address(address) ? fmt::format("tcp://[::]:{}", port) : fmt::format("tcp://*:{}", port);
}

CurveKeys make_curve_keys(std::string_view token) {
  start_sodium();
  CurveKeys keys;
  make_pair(token, kServerLabel, keys.server_secret, keys.server_public);
  make_pair(token, kClientLabel, keys.client_secret, keys.client_public);
  return keys;
}

std::string random_token() {
  start_sodium();
  std::array<unsigned char, kRandomBytes> bytes;
  randombytes_buf(bytes.data(), bytes.size());
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::string read_token(const std::filesystem::path& file) {
  std::string token;
  if (!file.empty()) token = first_line_of(file);
  else if (const char* value = std::getenv(kTokenVariable)) token = value;
  else return token;
  if (token.size() < kLeastToken)
    fail_user({file.empty() ? std::string(kTokenVariable) : file.string(), "the token is too short",
               fmt::format("with fewer than {} characters it could be guessed", kLeastToken),
               "make one: openssl rand -hex 16"});
  return token;
}

void check_endpoint(const std::string& endpoint, bool listens, bool has_token) {
  constexpr std::string_view kTcp = "tcp://";
  const auto refuse = [&](std::string why, std::string next) {
    fail_user({endpoint, "", std::move(why), std::move(next)});
  };
  const size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon < kTcp.size() + 1) refuse("is not an address", "write tcp://HOST:PORT");
  const std::string_view host = std::string_view(endpoint).substr(kTcp.size(), colon - kTcp.size());
  const std::string_view port = std::string_view(endpoint).substr(colon + 1);
  if (!is_port(port) && !(listens && port == "*"))
    refuse(fmt::format("\"{}\" is not a port", port), "write tcp://HOST:PORT");
  if (!listens && host == "*") refuse("is not an address that can be joined", "name the server's machine");
  if (!has_token && !is_loopback(host))
    refuse("is not this machine, and there is no token: any process could join and read the weights",
           fmt::format("set {} or give --token-file, the same on both sides (openssl rand -hex 16)", kTokenVariable));
}

}  // namespace trireme
