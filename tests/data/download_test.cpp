#include "data/download/download.h"

#include <string>
#include <vector>

#include "http_server.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kBytes = 300000;

std::string content() {
  std::string bytes(kBytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 2654435761u) >> 13);
  return bytes;
}

class Download : public ::testing::Test {
 protected:
  Download() {
    write_file(folder_ / "reference", bytes_);
    source_ = {"set.bin", sha256_of(folder_ / "reference"), static_cast<int64_t>(kBytes), {}};
    options_.pause_seconds = 0;
    options_.timeout_seconds = 5;
  }

  void get(std::vector<std::string> urls) {
    source_.urls = std::move(urls);
    download(
        {source_}, target(), [this](const DownloadProgress& p) { seen_.push_back(p); }, options_);
  }
  std::filesystem::path target() const { return folder_ / "data"; }
  std::string downloaded() const { return read_text(target() / "set.bin"); }
  bool part_exists() const { return std::filesystem::exists(target() / "set.bin.part"); }

  /// Announces all bytes from `from` on, sends `count` of them and closes the connection.
  void send_cut(httplib::Response& response, size_t from, size_t count) const {
    response.set_content_provider(kBytes - from, "application/octet-stream",
                                  [this, from, count](size_t offset, size_t length, httplib::DataSink& sink) {
                                    if (offset >= count) return false;
                                    return sink.write(bytes_.data() + from + offset, std::min(length, count - offset));
                                  });
  }

  ScopedVariable no_proxy_{"no_proxy", "127.0.0.1"};
  TemporaryFolder folder_;
  const std::string bytes_ = content();
  DownloadSource source_;
  DownloadOptions options_;
  std::vector<DownloadProgress> seen_;
  LocalServer::Handler whole_ = [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(bytes_, "application/octet-stream");
  };
  LocalServer::Handler missing_ = [](const httplib::Request&, httplib::Response& response) { response.status = 404; };
};

TEST_F(Download, Sha256OfKnownText) {
  write_file(folder_ / "abc", "abc");  // FIPS 180-2, appendix B.1
  EXPECT_EQ(sha256_of(folder_ / "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(Download, FetchesAWholeFileOnce) {
  LocalServer server(whole_);
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
  EXPECT_FALSE(part_exists());
  EXPECT_THAT(server.ranges(), ElementsAre(""));
  ASSERT_FALSE(seen_.empty());
  EXPECT_TRUE(seen_.back().done);
  EXPECT_EQ(seen_.back().received, int64_t{kBytes});
  get({server.url("/set.bin")});
  EXPECT_EQ(server.ranges().size(), 1u) << "a right file is not fetched again";
}

TEST_F(Download, ReplacesAFileWithTheWrongChecksum) {
  LocalServer server(whole_);
  write_file(target() / "set.bin", std::string(kBytes, 'x'));
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
}

TEST_F(Download, ResumesAfterTheConnectionBreaks) {
  size_t sent_again = 0;
  LocalServer server([&](const httplib::Request& request, httplib::Response& response) {
    if (!request.has_header("Range")) return send_cut(response, 0, 100000);
    sent_again = kBytes - static_cast<size_t>(request.ranges.at(0).first);
    whole_(request, response);
  });
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
  EXPECT_THAT(server.ranges(), ElementsAre("", "bytes=100000-"));
  EXPECT_EQ(sent_again, kBytes - 100000) << "bytes that are here are not fetched again";
}

TEST_F(Download, ContinuesThePartOfAnEarlierCall) {
  LocalServer server(whole_);
  write_file(target() / "set.bin.part", bytes_.substr(0, 123456));
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
  EXPECT_THAT(server.ranges(), ElementsAre("bytes=123456-"));
  EXPECT_EQ(seen_.front().received, 123456);
}

TEST_F(Download, StartsAgainWhereTheServerIgnoresRanges) {
  LocalServer server([this](const httplib::Request&, httplib::Response& response) {
    response.status = 200;  // with a status and a chunked body httplib ignores the range
    response.set_chunked_content_provider("application/octet-stream", [this](size_t, httplib::DataSink& sink) {
      sink.write(bytes_.data(), bytes_.size());
      sink.done();
      return true;
    });
  });
  write_file(target() / "set.bin.part", std::string(5000, '?'));
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
  EXPECT_THAT(server.ranges(), ElementsAre("bytes=5000-"));
}

TEST_F(Download, DiscardsABadPart) {
  LocalServer server(whole_);
  write_file(target() / "set.bin.part", std::string(kBytes, '?'));
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
  EXPECT_THAT(server.ranges(), ElementsAre("")) << "complete but bad";

  std::filesystem::remove(target() / "set.bin");
  write_file(target() / "set.bin.part", std::string(1000, '?'));
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_) << "bad from the start, found out at the end";
  EXPECT_THAT(server.ranges(), ElementsAre("", "bytes=1000-", ""));

  std::filesystem::remove(target() / "set.bin");
  write_file(target() / "set.bin.part", bytes_);
  get({server.url("/set.bin")});
  EXPECT_EQ(server.ranges().size(), 3u) << "complete and right: only renamed";
}

TEST_F(Download, NamesBothChecksums) {
  std::string wrong = bytes_;
  wrong[77] ^= 1;
  LocalServer server([&](const httplib::Request&, httplib::Response& response) {
    response.set_content(wrong, "application/octet-stream");
  });
  write_file(folder_ / "wrong", wrong);
  std::string message = error_of([&] { get({server.url("/set.bin")}); }, Blame::run);
  EXPECT_THAT(message,
              AllOf(HasSubstr("wrong checksum"), HasSubstr(source_.sha256), HasSubstr(sha256_of(folder_ / "wrong")),
                    HasSubstr(server.url("/set.bin")), HasSubstr((target() / "set.bin").string())));
  EXPECT_FALSE(std::filesystem::exists(target() / "set.bin"));
  EXPECT_FALSE(part_exists());
}

TEST_F(Download, TriesTheNextMirror) {
  LocalServer absent(missing_), server(whole_);
  get({absent.url("/a/set.bin"), server.url("/b/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
  EXPECT_EQ(absent.paths().size(), 1u) << "404 is final";
  std::filesystem::remove(target() / "set.bin");
  std::string message = error_of([&] { get({absent.url("/a/set.bin"), absent.url("/b/set.bin")}); }, Blame::run);
  EXPECT_THAT(message, AllOf(HasSubstr(absent.url("/a/set.bin") + " answers HTTP 404"),
                             HasSubstr("/b/set.bin answers HTTP 404"), HasSubstr("TRIREME_MIRROR")));
}

TEST_F(Download, RetriesAServerThatIsBusy) {
  int requests = 0;
  LocalServer server([&](const httplib::Request& request, httplib::Response& response) {
    if (++requests < 3) response.status = 503;
    else whole_(request, response);
  });
  get({server.url("/set.bin")});
  EXPECT_EQ(downloaded(), bytes_);
}

TEST_F(Download, GivesUpOnABodyThatStaysTruncatedAndKeepsItsPart) {
  LocalServer server([&](const httplib::Request&, httplib::Response& response) {
    response.set_content(bytes_.substr(0, 1000), "application/octet-stream");
  });
  std::string message = error_of([&] { get({server.url("/set.bin")}); }, Blame::run);
  EXPECT_THAT(message, AllOf(HasSubstr(server.url("/set.bin")), HasSubstr("could not be downloaded")));
  EXPECT_FALSE(std::filesystem::exists(target() / "set.bin"));
  EXPECT_LE(server.ranges().size(), 8u) << "it does end";
}

TEST_F(Download, StopsAtABodyThatIsTooLong) {
  LocalServer server([&](const httplib::Request&, httplib::Response& response) {
    response.set_content(bytes_ + "more", "application/octet-stream");
  });
  EXPECT_THAT(error_of([&] { get({server.url("/set.bin")}); }, Blame::run), HasSubstr("more than the 300000 bytes"));
  EXPECT_FALSE(part_exists());
}

TEST_F(Download, ReportsThatNoServerAnswers) {
  std::string dead;
  {
    LocalServer server(whole_);
    dead = server.url("/set.bin");
  }
  EXPECT_THAT(error_of([&] { get({dead}); }, Blame::run),
              AllOf(HasSubstr(dead), HasSubstr("onnect"), HasSubstr("check the network")));
}

TEST_F(Download, ReplacesMirrorsByABaseAddress) {
  LocalServer server(whole_);
  options_.base_url = server.url("/copy");
  get({"http://127.0.0.1:1/never"});
  EXPECT_THAT(server.paths(), ElementsAre("/copy/set.bin"));
  std::filesystem::remove(target() / "set.bin");
  write_file(folder_ / "shelf/set.bin", bytes_);
  options_.base_url = "file://" + (folder_ / "shelf").string();
  write_file(target() / "set.bin.part", "half");
  get({});
  EXPECT_EQ(downloaded(), bytes_);
}

TEST_F(Download, NamesAFolderThatCannotBeMade) {
  write_file(folder_ / "data", "a file in the way");
  EXPECT_THAT(error_of([&] { get({"http://127.0.0.1:1/set.bin"}); }, Blame::run),
              AllOf(HasSubstr((folder_ / "data").string()), HasSubstr("--data-dir"), Not(HasSubstr("127.0.0.1"))));
}

}  // namespace
}  // namespace trireme
