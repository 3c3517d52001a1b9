// Reads safetensors files that the test writes by the published description, and checks files that we write, byte by
// byte.
#include "model/weights/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <random>

#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "support.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

class Safetensors : public WeightsFiles {};

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return {static_cast<const char*>(dense.data_ptr()), dense.nbytes()};
}

TEST_F(Safetensors, ReadsAFileMadeByHand) {
  const std::string header = R"({"__metadata__":{"format":"pt","note":"caf\u00e9"},)"
                             R"("b":{"dtype":"I16","shape":[3],"data_offsets":[8,14]},)"
                             R"("a.weight":{"shape":[2,1],"data_offsets":[0,8],"dtype":"F32"},)"
                             R"("none":{"dtype":"F64","shape":[0,7],"data_offsets":[14,14]},)"
                             R"("scalar":{"dtype":"BOOL","shape":[],"data_offsets":[14,15]}}   )";
  // 1.0f and -2.5f; 1, -2 and 300; true.
  const std::string data("\x00\x00\x80\x3f\x00\x00\x20\xc0\x01\x00\xfe\xff\x2c\x01\x01", 15);
  const Weights weights = read_safetensors(write("x.safetensors", safetensors(header, data)));
  ASSERT_EQ(weights.tensors.size(), 4u);
  EXPECT_TRUE(at::equal(weights.tensors.at("a.weight"), at::tensor({1.0f, -2.5f}).view({2, 1})));
  EXPECT_TRUE(at::equal(weights.tensors.at("b"), at::tensor({1, -2, 300}, at::kShort)));
  EXPECT_EQ(weights.tensors.at("none").sizes(), (at::IntArrayRef{0, 7}));
  EXPECT_EQ(weights.tensors.at("none").scalar_type(), at::kDouble);
  EXPECT_EQ(weights.tensors.at("scalar").dim(), 0);
  EXPECT_TRUE(weights.tensors.at("scalar").item<bool>());
  EXPECT_EQ(weights.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"note", "caf\u00e9"}}));
}

TEST_F(Safetensors, ReadsEveryDtypeBitByBit) {
  const std::vector<std::pair<std::string, at::ScalarType>> dtypes{
      {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
      {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool}};
  const std::vector<size_t> sizes{8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
  std::mt19937 random(7);
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const auto& [name, dtype] = dtypes[i];
    std::string data(6 * sizes[i], '\0');
    for (char& byte : data) byte = char(random() & (dtype == at::kBool ? 1 : 0xff));
    const std::string header =
        fmt::format(R"({{"t":{{"dtype":"{}","shape":[2,3],"data_offsets":[0,{}]}}}})", name, data.size());
    const at::Tensor tensor = SafetensorsFile(write("x", safetensors(header, data))).read("t");
    EXPECT_EQ(tensor.scalar_type(), dtype) << name;
    EXPECT_EQ(tensor.sizes(), (at::IntArrayRef{2, 3})) << name;
    EXPECT_EQ(bytes_of(tensor), data) << name;
  }
}

TEST_F(Safetensors, AnEmptyFileHoldsNothing) {
  EXPECT_TRUE(read_safetensors(write("x", safetensors("{}", ""))).tensors.empty());
  write_safetensors(folder_ / "y", {});
  EXPECT_TRUE(read_safetensors(folder_ / "y").tensors.empty());
}

TEST_F(Safetensors, WrittenFilesFollowTheDescription) {
  const at::Tensor matrix = at::arange(12, at::kFloat).view({3, 4});
  const TensorMap tensors{{"byte", at::tensor({1, 2, 3}, at::kByte)},
                          {"long", at::tensor({int64_t{-5}})},
                          {"transposed \"\u00fc\"", matrix.t()},
                          {"half", matrix.to(at::kBFloat16)},
                          {"empty", at::empty({4, 0})}};
  write_safetensors(folder_ / "x", tensors, {{"format", "pt"}});
  const std::string file = read_file(folder_ / "x");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  const std::string header = file.substr(8, length), data = file.substr(8 + length);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(header.front(), '{');
  EXPECT_EQ(header.find_last_not_of(' '), header.rfind('}'));
  auto json = nlohmann::json::parse(header);
  EXPECT_EQ(json.at("__metadata__"), (nlohmann::json{{"format", "pt"}}));
  json.erase("__metadata__");
  ASSERT_EQ(json.size(), tensors.size());
  std::map<uint64_t, uint64_t> spans;
  for (const auto& [name, tensor] : tensors) {
    const auto& entry = json.at(name);
    const uint64_t begin = entry.at("data_offsets")[0], end = entry.at("data_offsets")[1];
    EXPECT_EQ(entry.at("shape").get<std::vector<int64_t>>(), tensor.sizes().vec());
    EXPECT_EQ(data.substr(begin, end - begin), bytes_of(tensor)) << name;
    EXPECT_EQ((8 + length + begin) % tensor.element_size(), 0u) << name << " is not aligned";
    if (begin < end) spans[begin] = end;
  }
  uint64_t covered = 0;
  for (auto [begin, end] : spans) {
    EXPECT_EQ(begin, covered);
    covered = end;
  }
  EXPECT_EQ(covered, data.size());
  EXPECT_EQ(json.at("byte").at("dtype"), "U8");
  EXPECT_EQ(json.at("half").at("dtype"), "BF16");
}

TEST_F(Safetensors, RandomTensorsSurviveTheRoundTrip) {
  const uint64_t seed = 20240611;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<at::ScalarType> dtypes{at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                           at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};
  for (int round = 0; round < 20; ++round) {
    TensorMap tensors;
    for (uint64_t i = random() % 12; i-- > 0;) {
      Shape shape(random() % 5);
      for (int64_t& length : shape) length = int64_t(random() % 5);
      const at::ScalarType dtype = dtypes[random() % dtypes.size()];
      at::Tensor tensor = at::randint(0, dtype == at::kBool ? 2 : 100, shape, at::kLong).to(dtype);
      if (tensor.dim() > 1 && random() % 2) tensor = tensor.transpose(0, 1);
      tensors[fmt::format("t{}", random() % 1000)] = tensor;
    }
    write_safetensors(folder_ / "x", tensors);
    const Weights back = read_safetensors(folder_ / "x");
    ASSERT_EQ(back.tensors.size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(back.tensors.at(name).scalar_type(), tensor.scalar_type());
      EXPECT_TRUE(at::equal(back.tensors.at(name), tensor)) << name;
    }
  }
}

TEST_F(Safetensors, WhatTheFormatCannotHoldIsNamed) {
  const auto error = [&](const TensorMap& tensors, const std::map<std::string, std::string>& metadata = {}) {
    const std::string text = user_error([&] { write_safetensors(folder_ / "x", tensors, metadata); });
    EXPECT_FALSE(fs::exists(folder_ / "x"));
    return text;
  };
  EXPECT_THAT(error({{"z", at::zeros({2}, at::kComplexFloat)}}), HasSubstr("\"z\" of type"));
  EXPECT_THAT(error({{"s", at::zeros({2, 2}).to_sparse()}}), HasSubstr("\"s\" of type"));
  EXPECT_THAT(error({{"__metadata__", at::zeros({2})}}), HasSubstr("rename it"));
  EXPECT_THAT(error({{"caf\xe9", at::zeros({2})}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(error({}, {{"a", "\xff"}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(user_error([&] { write_safetensors(folder_ / "no" / "x", {}); }), HasSubstr("cannot be written"));
  EXPECT_TRUE(fs::is_empty(folder_)) << "a temporary file was left";
}

TEST_F(Safetensors, AMissingTensorIsNamedWithThoseThatAreThere) {
  write_safetensors(folder_ / "x", {{"a", at::zeros({1})}, {"b", at::zeros({1})}});
  const SafetensorsFile file(folder_ / "x");
  EXPECT_THAT(user_error([&] { file.read("c"); }), HasSubstr("no tensor \"c\": it holds 2 tensors: \"a\", \"b\""));
}

TEST_F(Safetensors, AnIndexLeadsToTheShards) {
  write_safetensors(folder_ / "m-1.safetensors", {{"a", at::ones({2})}, {"extra", at::ones({1})}}, {{"format", "pt"}});
  write_safetensors(folder_ / "m-2.safetensors", {{"b", at::full({3}, 7)}});
  const fs::path index =
      write("model.safetensors.index.json",
            R"({"metadata":{"total_size":20},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}})");
  const Weights weights = read_safetensors_index(index);
  ASSERT_EQ(weights.tensors.size(), 2u) << "only what the index names";
  EXPECT_TRUE(at::equal(weights.tensors.at("a"), at::ones({2})));
  EXPECT_TRUE(at::equal(weights.tensors.at("b"), at::full({3}, 7)));
  EXPECT_EQ(weights.metadata.at("format"), "pt");
}

TEST_F(Safetensors, AMalformedIndexIsNamed) {
  write_safetensors(folder_ / "m.safetensors", {{"a", at::ones({2})}});
  const auto error = [&](const std::string& text) {
    return user_error([&] { read_safetensors_index(write("i.index.json", text)); });
  };
  EXPECT_THAT(error("{"), HasSubstr("ends too early, after byte 1: not valid JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("weight_map"));
  EXPECT_THAT(error(R"({"weight_map":[]})"), HasSubstr("weight_map"));
  EXPECT_THAT(error(R"({"weight_map":{"a":3}})"), HasSubstr("not a string"));
  EXPECT_THAT(error(R"({"weight_map":{"a":"../m.safetensors"}})"), HasSubstr("same folder"));
  EXPECT_THAT(error(R"({"weight_map":{"a":"/etc/passwd"}})"), HasSubstr("same folder"));
  EXPECT_THAT(error(R"({"weight_map":{"a":".."}})"), HasSubstr("same folder"));
  EXPECT_THAT(error(R"({"weight_map":{"a":"m.safetensors\u0000"}})"), HasSubstr("same folder"));
  EXPECT_THAT(error(R"({"weight_map":{"a":"gone.safetensors"}})"), HasSubstr("gone.safetensors: cannot be read"));
  EXPECT_THAT(error(R"({"weight_map":{"b":"m.safetensors"}})"), HasSubstr("no tensor \"b\""));
}

}  // namespace
}  // namespace trireme::test_support
