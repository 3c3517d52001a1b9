// Damaged safetensors files and files with false claims: the user gets one line with file and byte, never a crash or a
// large allocation.
#include <sys/resource.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "model/weights/read_weights.h"
#include "model/weights/safetensors.h"
#include "support.h"

namespace trireme::test_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MalformedSafetensors : public WeightsFiles {
 protected:
  std::string error(const std::string& bytes) const {
    const fs::path path = write("x.safetensors", bytes);
    const std::string text = user_error([&] { read_safetensors(path); });
    EXPECT_THAT(text, HasSubstr("x.safetensors"));
    EXPECT_THAT(text, HasSubstr(" byte"));
    return text;
  }
  std::string error(const std::string& header, const std::string& data) const {
    return error(safetensors(header, data));
  }
  /// The error for a file with one tensor "t" of four bytes.
  std::string tensor_error(const std::string& entry) const { return error("{\"t\":" + entry + "}", "1234"); }
};

const std::string kGood =
    R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";

TEST_F(MalformedSafetensors, CutAtAnyByte) {
  const std::string whole = safetensors(kGood, "123456");
  ASSERT_EQ(read_safetensors(write("whole", whole)).tensors.size(), 2u);
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    error(whole.substr(0, length));
  }
  EXPECT_THAT(error(whole + "7"), HasSubstr("1 surplus bytes at byte " + std::to_string(whole.size())));
}

TEST_F(MalformedSafetensors, AnyByteReplaced) {
  int refused = 0;
  for (size_t i = 0; i < kGood.size(); ++i)
    for (const char replacement : {'\0', '\xff', '"', '}', '9', ' '}) {
      std::string header = kGood;
      header[i] = replacement;
      try {
        parse_safetensors_header(header, 6, "x");  // valid if the byte only changed a name
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(int(error.blame()), int(Blame::user)) << error.what();
      }
    }
  EXPECT_GT(refused, 500);
}

TEST_F(MalformedSafetensors, HeaderLength) {
  EXPECT_THAT(error(little_endian(3, 8) + "{}"), HasSubstr("a header of 3 bytes at byte 0: the file ends at byte 10"));
  EXPECT_THAT(error(little_endian(100'000'001, 8) + "{}"), HasSubstr("the format allows 100000000"));
  EXPECT_THAT(error(little_endian(~uint64_t{0}, 8) + "{}"), HasSubstr("the format allows"));
  EXPECT_THAT(error(little_endian(0, 8)), HasSubstr("no '{' at byte 8"));
  EXPECT_THAT(error(" {}", ""), HasSubstr("no '{' at byte 8"));
}

TEST_F(MalformedSafetensors, Json) {
  // The reported byte is the one behind the bad byte, counted from the begin of the file.
  EXPECT_THAT(error("{,}", ""), HasSubstr("not valid JSON at byte 10"));
  EXPECT_THAT(error("{} x", ""), HasSubstr("not valid JSON at byte 12"));
  EXPECT_THAT(error("{}{}", ""), HasSubstr("not valid JSON at byte 11"));
  EXPECT_THAT(error("{\"a\xff\":{}}", ""), AllOf(HasSubstr("not valid JSON at byte 12"), HasSubstr("UTF-8")));
  EXPECT_THAT(error("{\"\xc3\":{}}", ""), HasSubstr("UTF-8"));
  EXPECT_THAT(error("{\"\xed\xa0\x80\":{}}", ""), HasSubstr("UTF-8"));
  EXPECT_THAT(error("{\"a\":[1]}", ""), HasSubstr("[ for \"a\" at byte 14: it must be an object"));
  EXPECT_THAT(error("{\"a\":12}", ""), HasSubstr("12 for \"a\" at byte 15"));
  EXPECT_THAT(error("{\"a\":null}", ""), HasSubstr("null for \"a\""));
  EXPECT_THAT(error("{\"" + std::string(100000, 'n') + "\":" + std::string(1000, '['), ""), HasSubstr("nnn...\""));
}

TEST_F(MalformedSafetensors, DeepNestingIsRefusedAtOnce) {
  error("{\"a\":{\"dtype\":" + std::string(1'000'000, '['), "");
  error("{\"a\":{\"shape\":" + std::string(1'000'000, '['), "");
  error(std::string("{\"a\":") + std::string(1'000'000, '{'), "");
}

TEST_F(MalformedSafetensors, NamesThatComeTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  EXPECT_THAT(error("{\"a\":" + entry + ",\"a\":" + entry + "}", "12"),
              HasSubstr("name \"a\" at byte 64: it comes twice"));
  EXPECT_THAT(error("{\"__metadata__\":{},\"__metadata__\":{}}", ""), HasSubstr("it comes twice"));
  EXPECT_THAT(error("{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", ""), HasSubstr("it comes twice"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"shape":[4]})"),
              HasSubstr("shape of tensor \"t\""));
  // The same name, written with an escape.
  EXPECT_THAT(error("{\"a\":" + entry + ",\"\\u0061\":" + entry + "}", "12"), HasSubstr("it comes twice"));
}

TEST_F(MalformedSafetensors, Metadata) {
  EXPECT_THAT(error(R"({"__metadata__":{"a":1}})", ""),
              HasSubstr("1 for \"a\" of __metadata__ at byte 30: it must be a string"));
  EXPECT_THAT(error(R"({"__metadata__":{"a":{}}})", ""), HasSubstr("{ for \"a\" of __metadata__"));
  EXPECT_THAT(error(R"({"__metadata__":[]})", ""), HasSubstr("it must be an object"));
}

TEST_F(MalformedSafetensors, FieldsOfATensor) {
  EXPECT_THAT(tensor_error("{}"), HasSubstr("it has no dtype"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4]})"), HasSubstr("it has no data_offsets"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","data_offsets":[0,4]})"), HasSubstr("it has no shape"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1})"), HasSubstr("key \"more\""));
  EXPECT_THAT(tensor_error(R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})"),
              HasSubstr("dtype \"F8_E4M3\" of tensor \"t\""));
  EXPECT_THAT(tensor_error(R"({"dtype":"f32","shape":[1],"data_offsets":[0,4]})"), HasSubstr("dtype \"f32\""));
  EXPECT_THAT(tensor_error(R"({"dtype":32,"shape":[1],"data_offsets":[0,4]})"), HasSubstr("32 for dtype"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"), HasSubstr("4 for shape"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":["4"],"data_offsets":[0,4]})"), HasSubstr("\"4\" in shape"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), HasSubstr("4.0 in shape"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[[4]],"data_offsets":[0,4]})"), HasSubstr("[ in shape"));
}

TEST_F(MalformedSafetensors, ShapesThatLie) {
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"),
              HasSubstr("-4 in shape of tensor \"t\" at byte 38: a negative number"));
  EXPECT_THAT(tensor_error(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
              HasSubstr("it needs 8 bytes, its data_offsets [0, 4] span 4"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4]})"),
              HasSubstr("more than 2^63 - 1"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4]})"),
              HasSubstr("whole number"));
  // 2^32 * 2^32 = 0 modulo 2^64; 2^62 floats are 2^64 bytes.
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,4]})"),
              HasSubstr("exceeds 2^63"));
  EXPECT_THAT(tensor_error(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})"),
              HasSubstr("exceeds 2^63"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]})"),
              HasSubstr("exceeds 2^63"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "1,";
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[)" + many + R"(4],"data_offsets":[0,4]})"),
              HasSubstr("more than 64 dims"));
}

TEST_F(MalformedSafetensors, OffsetsThatLie) {
  const auto entry = [](const std::string& name, int bytes, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(bytes) + R"(],"data_offsets":[)" + offsets +
           "]}";
  };
  const auto pair_error = [&](const std::string& a, const std::string& b) {
    return error("{" + a + "," + b + "}", "12345678");
  };
  const uint64_t start = 8 + ("{" + entry("a", 4, "0,4") + "," + entry("b", 4, "4,8") + "}").size();
  EXPECT_THAT(pair_error(entry("a", 4, "0,4"), entry("b", 4, "3,7")),
              HasSubstr("tensor \"b\" at byte " + std::to_string(start + 3) + ": the tensor before it ends at byte " +
                        std::to_string(start + 4) + ": they overlap"));
  EXPECT_THAT(pair_error(entry("a", 4, "0,4"), entry("b", 3, "5,8")), HasSubstr("there is a hole"));
  EXPECT_THAT(pair_error(entry("a", 4, "1,5"), entry("b", 3, "5,8")), HasSubstr("there is a hole"));
  EXPECT_THAT(pair_error(entry("a", 4, "0,4"), entry("b", 4, "0,4")), HasSubstr("they overlap"));
  EXPECT_THAT(pair_error(entry("a", 4, "0,4"), entry("b", 3, "4,7")), HasSubstr("1 surplus bytes"));
  EXPECT_THAT(pair_error(entry("a", 4, "0,4"), entry("b", 5, "4,9")), HasSubstr("there are 8 bytes of data"));
  EXPECT_THAT(pair_error(entry("a", 8, "0,8"), entry("b", 0, "3,3")), HasSubstr("byte"));
  EXPECT_THAT(pair_error(entry("a", 8, "0,8"), entry("b", 4, "8,4")), HasSubstr("run backwards"));
  EXPECT_THAT(pair_error(entry("a", 8, "0,8"), entry("b", 4, "-4,0")), HasSubstr("-4 in data_offsets"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"), HasSubstr("it must be two numbers"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,4]})"), HasSubstr("more than two numbers"));
  EXPECT_THAT(tensor_error(R"({"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551615]})"),
              HasSubstr("span 3"));
}

TEST_F(MalformedSafetensors, ATruthValueIsZeroOrOne) {
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
  EXPECT_THAT(error(header, std::string("\x01\x00\x02", 3)),
              HasSubstr("value 2 of BOOL tensor \"a\" at byte " + std::to_string(8 + header.size() + 2)));
}

TEST_F(MalformedSafetensors, NothingIsAllocatedByTheClaim) {
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const int64_t huge = int64_t{1} << 40;
  error("{\"t\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(huge) + "],\"data_offsets\":[0," +
            std::to_string(huge) + "]}}",
        "1234");
  error(little_endian(99'999'999, 8) + "{");
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 20'000) << "KiB";
}

TEST_F(MalformedSafetensors, PathsThatAreNoFiles) {
  EXPECT_THAT(user_error([&] { read_safetensors(folder_); }), HasSubstr("directory"));
  EXPECT_THAT(user_error([&] { read_safetensors(folder_ / "gone"); }), HasSubstr("No such file"));
  EXPECT_THAT(user_error([&] { read_safetensors("/dev/zero"); }), HasSubstr("not a regular file"));
}

TEST_F(MalformedSafetensors, AFileOfAnotherKindIsNoWeights) {
  EXPECT_THAT(user_error([&] { read_weights(write("x.txt", "hello, world")); }), HasSubstr("not a file of weights"));
  EXPECT_THAT(user_error([&] { read_weights(write("x.bin", "")); }), HasSubstr("not a file of weights"));
  EXPECT_EQ(read_weights(write("x.pt", safetensors(kGood, "123456"))).tensors.size(), 2u) << "the content decides";
}

}  // namespace
}  // namespace trireme::test_support
