#include "comm/rendezvous/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/expect_error.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

TEST(Token, ComeFromTheToken) {
  const CurveKeys keys = make_curve_keys("one token of many"), same = make_curve_keys("one token of many"),
                  other = make_curve_keys("another token");
  EXPECT_EQ(keys.server_public, same.server_public);
  EXPECT_EQ(keys.client_secret, same.client_secret);
  EXPECT_NE(keys.server_public, other.server_public);
  EXPECT_NE(keys.server_secret, keys.client_secret);
  for (const std::string* key : {&keys.server_secret, &keys.server_public, &keys.client_secret, &keys.client_public})
    EXPECT_EQ(key->size(), 32u);
  EXPECT_GE(random_token().size(), kLeastToken);
  EXPECT_NE(random_token(), random_token());
}

TEST(Token, TokensAreReadAndNotPrinted) {
  const std::string file = ::testing::TempDir() + "/trireme-token";
  std::ofstream(file) << "0123456789abcdef\nmore\n";
  EXPECT_EQ(read_token(file), "0123456789abcdef");
  std::ofstream(file) << "hunter2\n";
  try {
    read_token(file);
    ADD_FAILURE() << "a short token was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("too short"));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("hunter2")));
  }
  expect_error(Blame::user, {"--token-file", "no-such-file"}, [] { read_token("no-such-file"); });
}

TEST(Token, OtherMachinesNeedAToken) {
  for (const char* good : {"tcp://127.0.0.1:5555", "tcp://localhost:1", "tcp://[::1]:80", "tcp://127.3.2.1:*"})
    check_endpoint(good, true, false);
  for (const char* good : {"tcp://*:5555", "tcp://10.0.0.1:5555", "tcp://eth0:5555"}) {
    check_endpoint(good, true, true);
    expect_error(Blame::user, {good, "token"}, [&] { check_endpoint(good, true, false); });
  }
  check_endpoint("tcp://far.example:5555", false, true);
  expect_error(Blame::user, {"token"}, [] { check_endpoint("tcp://127.evil.example:5555", false, false); });
  for (const char* bad : {"127.0.0.1:5555", "tcp://127.0.0.1", "tcp://:5555", "udp://127.0.0.1:5555",
                          "tcp://127.0.0.1:99999", "tcp://127.0.0.1:x"})
    expect_error(Blame::user, {bad}, [&] { check_endpoint(bad, true, true); });
  expect_error(Blame::user, {"is not a port"}, [] { check_endpoint("tcp://127.0.0.1:*", false, true); });
}

TEST(Token, ListensWhereItIsNeeded) {
  EXPECT_EQ(listening_endpoint("127.0.0.1", 29500), "tcp://127.0.0.1:29500");
  EXPECT_EQ(listening_endpoint("localhost", 29500), "tcp://localhost:29500");
  EXPECT_EQ(listening_endpoint("::1", 29500), "tcp://[::1]:29500");
  EXPECT_EQ(listening_endpoint("10.0.0.1", 29500), "tcp://*:29500");
  EXPECT_EQ(listening_endpoint("fd00::7", 29500), "tcp://[::]:29500") << "tcp://* is IPv4 only";
  EXPECT_EQ(endpoint_of("fe80::1", 1), "tcp://[fe80::1]:1");
}

}  // namespace
}  // namespace trireme
