#include <string>

#include "data/images/cifar.h"
#include "data/images/idx.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CifarFormat kCifar10{"cifar10", "CIFAR-10", 10, 0}, kCifar100{"cifar100", "CIFAR-100", 100, 20};
const std::string kTwoImages = idx_images(2, 2, 3, "abcdefghijkl");

TEST(IdxReader, ReadsPlainAndGzippedFiles) {
  TemporaryFolder folder;
  write_file(folder / "images", kTwoImages);
  write_gzip(folder / "images.gz", kTwoImages);
  for (const char* name : {"images", "images.gz"}) {
    IdxArray array = read_idx(folder / name, 3, "mnist");
    EXPECT_THAT(array.lengths, ElementsAre(2, 2, 3));
    EXPECT_EQ(std::string(array.values.begin(), array.values.end()), "abcdefghijkl");
  }
}

TEST(IdxReader, ReadsAPlainFileThatKeptItsGzName) {
  TemporaryFolder folder;
  write_file(folder / "images.gz", kTwoImages);
  EXPECT_EQ(read_idx(folder / "images.gz", 3, "mnist").values.size(), 12u);
}

TEST(IdxReader, ReadsGzipOfSeveralMembersAndManyBlocks) {
  TemporaryFolder folder;
  std::string values(3 << 20, 'x');
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<char>(i * i >> 7);
  std::string whole = idx_images(3 << 10, 32, 32, values);
  write_gzip(folder / "a.gz", whole.substr(0, 1234567));
  write_gzip(folder / "b.gz", whole.substr(1234567));
  write_file(folder / "both.gz", read_text(folder / "a.gz") + read_text(folder / "b.gz"));
  auto array = read_idx(folder / "both.gz", 3, "mnist");
  EXPECT_TRUE(std::equal(array.values.begin(), array.values.end(), values.begin(), values.end(),
                         [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }));
}

TEST(IdxReader, NamesAMissingFile) {
  TemporaryFolder folder;
  std::string message = error_of([&] { read_idx(folder / "nowhere.gz", 3, "mnist"); });
  EXPECT_THAT(message, AllOf(HasSubstr((folder / "nowhere.gz").string()), HasSubstr("no such file"),
                             HasSubstr("trireme data get mnist")));
}

TEST(IdxReader, GivesTheBytePositionOfCorruptGzip) {
  TemporaryFolder folder;
  write_gzip(folder / "images.gz", idx_images(100, 10, 10, std::string(10000, 'a')));
  std::string bytes = read_text(folder / "images.gz");
  std::string broken = bytes;
  broken[10] = static_cast<char>(0x07);  // the first byte after the header: block type 3 does not exist
  write_file(folder / "broken.gz", broken);
  EXPECT_THAT(error_of([&] { read_idx(folder / "broken.gz", 3, "mnist"); }),
              AllOf(HasSubstr("broken.gz"), ::testing::ContainsRegex("corrupt gzip data at byte 1[01] of"),
                    HasSubstr("block type")));

  broken = bytes;
  broken[bytes.size() - 8] ^= 1;  // a byte of the checksum
  write_file(folder / "checksum.gz", broken);
  EXPECT_THAT(error_of([&] { read_idx(folder / "checksum.gz", 3, "mnist"); }), HasSubstr("incorrect data check"));

  write_file(folder / "cut.gz", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(error_of([&] { read_idx(folder / "cut.gz", 3, "mnist"); }),
              AllOf(HasSubstr("ends before the gzip stream does"),
                    HasSubstr("byte " + std::to_string(bytes.size() / 2) + " of")));

  write_file(folder / "page.gz", "<html>404</html>");
  EXPECT_THAT(error_of([&] { read_idx(folder / "page.gz", 3, "mnist"); }), HasSubstr("incorrect header check"));
  write_file(folder / "empty.gz", "");
  EXPECT_THAT(error_of([&] { read_idx(folder / "empty.gz", 3, "mnist"); }), HasSubstr("ends before"));
}

TEST(IdxReader, ExplainsAWrongMagicNumber) {
  TemporaryFolder folder;
  write_file(folder / "labels", idx_labels("abc"));
  EXPECT_THAT(error_of([&] { read_idx(folder / "labels", 3, "mnist"); }),
              AllOf(HasSubstr("wrong magic number 0x00000801"), HasSubstr("0x00000803"), HasSubstr("holds labels")));
  write_file(folder / "text", "hello world, this is text");
  EXPECT_THAT(error_of([&] { read_idx(folder / "text", 3, "mnist"); }), HasSubstr("0x68656c6c"));
}

TEST(IdxReader, GivesExpectedAndFoundBytesOfATruncatedFile) {
  TemporaryFolder folder;
  write_file(folder / "short", kTwoImages.substr(0, 25));
  EXPECT_THAT(error_of([&] { read_idx(folder / "short", 3, "mnist"); }),
              AllOf(HasSubstr("truncated"), HasSubstr("requires 28 bytes, found 25 bytes")));
  write_file(folder / "header", kTwoImages.substr(0, 9));
  EXPECT_THAT(error_of([&] { read_idx(folder / "header", 3, "mnist"); }), HasSubstr("header of 16 bytes, found 9"));
  write_file(folder / "two", "ab");
  EXPECT_THAT(error_of([&] { read_idx(folder / "two", 3, "mnist"); }), HasSubstr("found 2 bytes"));
  write_file(folder / "long", kTwoImages + "z");
  EXPECT_THAT(error_of([&] { read_idx(folder / "long", 3, "mnist"); }), HasSubstr("surplus"));
  write_file(folder / "huge", idx_images(0xffffffff, 0xffffffff, 0xffffffff, "x"));
  EXPECT_THAT(error_of([&] { read_idx(folder / "huge", 3, "mnist"); }), HasSubstr("impossible idx header"));
}

TEST(IdxReader, ChecksLabelsAgainstImages) {
  TemporaryFolder folder;
  write_file(folder / "images", kTwoImages);
  write_file(folder / "three", idx_labels(std::string{1, 2, 3}));
  EXPECT_THAT(error_of([&] { read_idx_images(folder / "images", folder / "three", 10, "mnist"); }),
              AllOf(HasSubstr("three: 3 labels"), HasSubstr("holds 2 images")));
  write_file(folder / "range", idx_labels(std::string{9, 10}));
  EXPECT_THAT(error_of([&] { read_idx_images(folder / "images", folder / "range", 10, "mnist"); }),
              AllOf(HasSubstr("label 10 of sample 1"), HasSubstr("0 to 9")));
  write_file(folder / "none", idx_images(0, 28, 28, ""));
  write_file(folder / "nolabels", idx_labels(""));
  EXPECT_THAT(error_of([&] { read_idx_images(folder / "none", folder / "nolabels", 10, "mnist"); }),
              HasSubstr("no images"));
  write_file(folder / "good", idx_labels(std::string{9, 0}));
  Images images = read_idx_images(folder / "images", folder / "good", 10, "mnist");
  EXPECT_EQ(images.count(), 2);
  EXPECT_EQ(images.height, 2);
  EXPECT_EQ(images.width, 3);
  EXPECT_THAT(images.labels, ElementsAre(9, 0));
}

/// A record whose byte at (channel c, pixel p) is c * 64 + p % 61.
std::string cifar_record(char label) {
  std::string record(1, label);
  for (int c = 0; c < 3; ++c)
    for (int p = 0; p < 1024; ++p) record += static_cast<char>(c * 64 + p % 61);
  return record;
}

TEST(CifarReader, InterleavesChannelsAndJoinsTheFilesThatAreThere) {
  TemporaryFolder folder;
  write_file(folder / "data_batch_2.bin", cifar_record(3));
  write_file(folder / "data_batch_5.bin", cifar_record(4) + cifar_record(9));
  Images images = read_cifar_train(folder.path(), kCifar10);
  EXPECT_THAT(images.labels, ElementsAre(3, 4, 9));
  ASSERT_EQ(images.pixels.size(), 3u * 3072);
  for (int64_t p : {0, 1, 500, 1023})
    for (int64_t c : {0, 1, 2}) EXPECT_EQ(images.pixels[static_cast<size_t>(3072 + 3 * p + c)], c * 64 + p % 61);
}

TEST(CifarReader, RefusesDamagedFiles) {
  TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { read_cifar_train(folder.path(), kCifar10); }),
              AllOf(HasSubstr("no training images"), HasSubstr("trireme data get cifar10")));
  EXPECT_THAT(error_of([&] { read_cifar_test(folder.path(), kCifar10); }),
              AllOf(HasSubstr("test_batch.bin"), HasSubstr("no such file")));
  write_file(folder / "test_batch.bin", cifar_record(1).substr(0, 3000));
  EXPECT_THAT(error_of([&] { read_cifar_test(folder.path(), kCifar10); }),
              AllOf(HasSubstr("3000 bytes"), HasSubstr("3073")));
  write_file(folder / "test_batch.bin", "");
  EXPECT_THAT(error_of([&] { read_cifar_test(folder.path(), kCifar10); }), HasSubstr("test_batch.bin: an empty file"));
  write_file(folder / "test_batch.bin", cifar_record(1) + cifar_record(10));
  EXPECT_THAT(error_of([&] { read_cifar_test(folder.path(), kCifar10); }), HasSubstr("label 10 of record 1"));
}

TEST(CifarReader, ReadsTheFinerOfTwoLabels) {
  TemporaryFolder folder;
  write_file(folder / "train.bin", std::string(1, '\x13') + cifar_record(99) + '\0' + cifar_record(0));
  write_file(folder / "test.bin", std::string(1, '\7') + cifar_record(50));
  const Images train = read_cifar_train(folder.path(), kCifar100), test = read_cifar_test(folder.path(), kCifar100);
  EXPECT_THAT(train.labels, ElementsAre(99, 0));
  EXPECT_THAT(test.labels, ElementsAre(50));
  for (int64_t p : {0, 777, 1023})
    for (int64_t c : {0, 1, 2}) EXPECT_EQ(train.pixels[static_cast<size_t>(3072 + 3 * p + c)], c * 64 + p % 61);
  auto message = [&](const std::string& bytes) {
    write_file(folder / "test.bin", bytes);
    return error_of([&] { read_cifar_test(folder.path(), kCifar100); });
  };
  EXPECT_THAT(message(cifar_record(1)),
              AllOf(HasSubstr("3073 bytes"), HasSubstr("3074"), HasSubstr("data get cifar100")));
  EXPECT_THAT(message('\x13' + cifar_record(1) + '\x14' + cifar_record(1)),
              HasSubstr("coarse label 20 of record 1 (byte 3074): coarse labels are 0 to 19"));
  EXPECT_THAT(message('\x13' + cifar_record(100)), HasSubstr("label 100 of record 0 (byte 1): labels are 0 to 99"));
}

}  // namespace
}  // namespace trireme
