// The rendezvous with a token: clients without the token cannot change its keys.
#include "comm/rendezvous/key_exchange.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "base/random.h"
#include "base/seconds.h"

namespace trireme {
namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";
const std::string kLocal = "tcp://127.0.0.1:*";

int port_of(const std::string& endpoint) { return std::stoi(endpoint.substr(endpoint.rfind(':') + 1)); }

/// A plain TCP connection to a port of this machine, without a token.
class Stranger {
 public:
  explicit Stranger(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Stranger() { ::close(socket_); }
  bool connected() const { return connected_; }
  bool say(const std::string& bytes) {
    return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == ssize_t(bytes.size());
  }
  /// Returns the bytes that arrive within `milliseconds`.
  std::string hear(int milliseconds) {
    std::string heard;
    pollfd waiting{socket_, POLLIN, 0};
    char buffer[4096];
    while (::poll(&waiting, 1, milliseconds) > 0) {
      const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      heard.append(buffer, size_t(n));
    }
    return heard;
  }

 private:
  const int socket_;
  bool connected_ = false;
};

std::string random_bytes(uint64_t seed, size_t count) {
  const Philox draw(random_key(seed, "stranger"));
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += char(draw.uniform(i) * 256);
  return bytes;
}

TEST(KeyExchange, KeepsKeys) {
  for (const std::string& token : {kToken, std::string()}) {
    KeyServer server(kLocal, make_curve_keys(token));
    KeyClient one(server.endpoint(), make_curve_keys(token), 10), other(server.endpoint(), make_curve_keys(token), 10);
    EXPECT_FALSE(one.get("a"));
    EXPECT_FALSE(one.has({"a"}));
    const std::string bytes("with\0zero and \xff", 15);
    one.set("a", bytes);
    one.set("empty", "");
    EXPECT_EQ(other.get("a"), bytes);
    EXPECT_EQ(other.get("empty"), "");
    EXPECT_TRUE(other.has({"a", "empty"}));
    EXPECT_FALSE(other.has({"a", "b"}));
    EXPECT_EQ(other.count(), 2);
    EXPECT_TRUE(other.remove("a"));
    EXPECT_FALSE(one.remove("a"));
    EXPECT_EQ(one.add("sum", 5), 5);
    EXPECT_EQ(other.add("sum", -7), -2);
    EXPECT_EQ(one.get("sum"), "-2");  // a decimal text, as in c10d's stores
  }
}

TEST(KeyExchange, ManyAddAtOnce) {
  KeyServer server(kLocal, make_curve_keys(kToken));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.emplace_back([&] {
      KeyClient client(server.endpoint(), make_curve_keys(kToken), 30);
      for (int i = 0; i < 50; ++i) client.add("sum", 1);
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(KeyClient(server.endpoint(), make_curve_keys(kToken), 10).add("sum", 0), 400);
}

TEST(KeyExchange, ListensByTheNameOfThisMachine) {  // torchrun uses it as MASTER_ADDR
  KeyServer server("tcp://localhost:*", make_curve_keys(kToken));
  KeyClient client("tcp://localhost:" + std::to_string(port_of(server.endpoint())), make_curve_keys(kToken), 60);
  client.set("a", "b");
  EXPECT_EQ(client.get("a"), "b");
}

TEST(KeyExchange, AnotherTokenIsRefusedAtOnce) {
  KeyServer server(kLocal, make_curve_keys(kToken));
  for (const std::string& token : {std::string("fedcba9876543210fedcba9876543210"), std::string()}) {
    KeyClient stranger(server.endpoint(), make_curve_keys(token), 60);
    const double began = steady_seconds();
    const char* said = token.empty() ? "this rank has none" : "does not accept this rank's token";
    expect_error(Blame::run, {said, "TRIREME_TOKEN"}, [&] { stranger.get("a"); });
    EXPECT_LT(steady_seconds() - began, 30);
  }
}

TEST(KeyExchange, WaitsForAServerThatComesLater) {
  const int port = port_of(KeyServer(kLocal, make_curve_keys(kToken)).endpoint());
  const std::string at = "tcp://127.0.0.1:" + std::to_string(port);
  KeyClient early(at, make_curve_keys(kToken), 60);
  std::thread asking([&] { early.set("a", "there"); });
  KeyServer server(at, make_curve_keys(kToken));
  asking.join();
  EXPECT_EQ(early.get("a"), "there");
}

TEST(KeyExchange, SaysThatTheServerIsGoneOrNeverThere) {
  auto server = std::make_unique<KeyServer>(kLocal, make_curve_keys(kToken));
  KeyClient client(server->endpoint(), make_curve_keys(kToken), 60);
  client.set("a", "b");
  server.reset();
  expect_error(Blame::run, {"the connection to rank 0 is gone"}, [&] {
    while (true) client.get("a");
  });
  KeyClient nobodys("tcp://127.0.0.1:1", make_curve_keys(kToken), 0.3);
  expect_error(Blame::run, {"has not answered for 0.3 s"}, [&] { nobodys.get("a"); });
}

TEST(KeyExchange, StrangersBytesGetNoFurther) {
  KeyServer server(kLocal, make_curve_keys(kToken));
  KeyClient client(server.endpoint(), make_curve_keys(kToken), 30);
  client.set("a", "kept");
  const int port = port_of(server.endpoint());
  std::vector<std::unique_ptr<Stranger>> slow;  // each connects and sends one byte
  for (int i = 0; i < 30; ++i) {
    slow.push_back(std::make_unique<Stranger>(port));
    ASSERT_TRUE(slow.back()->connected());
    slow.back()->say("\xff");
  }
  // ZMTP's greeting, then impossible lengths.
  const std::string greeting = std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0');
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Stranger stranger(port);
    ASSERT_TRUE(stranger.connected()) << "seed " << seed;
    if (seed % 4 == 1) stranger.say(greeting + std::string("\6\xff\xff\xff\xff\xff\xff\xff\xff", 9));
    if (seed % 4 == 2) stranger.say("GET / HTTP/1.1\r\n\r\n");
    stranger.say(random_bytes(seed, size_t(1) << (seed % 16)));
  }
  EXPECT_EQ(client.get("a"), "kept");
  EXPECT_EQ(client.count(), 1);
}

TEST(KeyExchange, RecordedBytesCannotBeReplayed) {
  KeyServer server(kLocal, make_curve_keys(kToken));
  // A relay that records the bytes of a client.
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(listening, 1), 0);
  socklen_t length = sizeof at;
  ::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &length);
  std::string heard;
  std::atomic<bool> done{false};
  std::thread relay([&] {
    const int from = ::accept(listening, nullptr, nullptr);
    const int to = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in there = at;
    there.sin_port = htons(uint16_t(port_of(server.endpoint())));
    ASSERT_EQ(::connect(to, reinterpret_cast<sockaddr*>(&there), sizeof there), 0);
    pollfd both[2] = {{from, POLLIN, 0}, {to, POLLIN, 0}};
    char buffer[4096];
    while (!done && ::poll(both, 2, 20) >= 0)
      for (const pollfd& side : both) {
        if (!(side.revents & POLLIN)) continue;
        const ssize_t n = ::recv(side.fd, buffer, sizeof buffer, 0);
        if (n <= 0) continue;
        if (side.fd == from) heard.append(buffer, size_t(n));
        ASSERT_EQ(::send(side.fd == from ? to : from, buffer, size_t(n), MSG_NOSIGNAL), n);
      }
    ::close(from);
    ::close(to);
  });
  {
    KeyClient client("tcp://127.0.0.1:" + std::to_string(ntohs(at.sin_port)), make_curve_keys(kToken), 30);
    EXPECT_EQ(client.add("times", 1), 1);
  }
  done = true;
  relay.join();
  ::close(listening);
  ASSERT_GT(heard.size(), 200u);
  EXPECT_EQ(heard.find("times"), heard.npos) << "what is said is encrypted";
  EXPECT_EQ(heard.find(kToken), heard.npos);
  Stranger stranger(port_of(server.endpoint()));
  stranger.say(heard);
  stranger.hear(300);
  EXPECT_EQ(KeyClient(server.endpoint(), make_curve_keys(kToken), 30).add("times", 0), 1) << "the request counted once";
}

}  // namespace
}  // namespace trireme
