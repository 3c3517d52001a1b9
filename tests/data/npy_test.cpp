#include "data/tables/npy.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "data/open.h"
#include "data/tables/tensor_dataset.h"
#include "model/weights/safetensors.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The bytes of a .npy file of version 1 with this header and these values.
std::string npy(const std::string& header, const std::string& values) {
  const std::string length{static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return std::string("\x93NUMPY\1\0", 8) + length + header + values;
}

std::string header_of(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

at::Tensor parse(const std::string& bytes) {
  return parse_npy({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "a.npy");
}

std::string error_in(const std::string& bytes) {
  return error_of([&] { parse(bytes); });
}

std::string floats(int n) {
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<float>(i));
  return bytes_of(values);
}

TEST(Npy, ReadsBothOrders) {
  const at::Tensor expected = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_TRUE(at::equal(parse(npy(header_of("<f4", "(2, 3)"), floats(6))), expected));
  const at::Tensor columns = parse(npy(header_of("<f4", "(3, 2)", true), floats(6)));
  EXPECT_TRUE(at::equal(columns, expected.t()));
  EXPECT_TRUE(columns.is_contiguous());
}

TEST(Npy, ReadsBothEndiannessesAndBools) {
  const std::string big("\0\0\0\7\xff\xff\xff\xfe", 8);
  EXPECT_TRUE(at::equal(parse(npy(header_of(">i4", "(2,)"), big)), at::tensor({7, -2}, at::kInt)));
  const at::Tensor flags = parse(npy(header_of("|b1", "(3,)"), std::string("\0\1\2", 3)));
  EXPECT_EQ(flags.scalar_type(), at::kBool);
  EXPECT_TRUE(at::equal(flags, at::tensor({0, 1, 1}, at::kLong).to(at::kBool))) << "any byte but 0 is true";
}

TEST(Npy, ReadsHeadersInAnyForm) {
  const std::string values = floats(1);
  for (const char* header : {"{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<f4\"}",
                             "{'descr':'<f4','shape':( 1L , ),'fortran_order':True}  \n"})
    EXPECT_EQ(parse(npy(header, values)).sizes(), std::vector<int64_t>{1}) << header;
  EXPECT_EQ(parse(npy(header_of("<f4", "()"), values)).dim(), 0);
  EXPECT_EQ(parse(npy(header_of("<f4", "(3, 0)"), "")).sizes(), (std::vector<int64_t>{3, 0}));
}

TEST(Npy, NamesTheByteOfABadHeader) {
  EXPECT_THAT(error_in("PK\3\4"), AllOf(HasSubstr("a.npy: not a .npy"), HasSubstr("0x93")));
  EXPECT_THAT(error_in(std::string("\x93NUMPY\4\0\1\0{", 11)), AllOf(HasSubstr("version 4"), HasSubstr("byte 6")));
  EXPECT_THAT(error_in(std::string("\x93NUMPY\1\0", 8)), HasSubstr("truncated"));
  EXPECT_THAT(error_in(npy(header_of("<f4", "(2,)"), "").substr(0, 30)),
              AllOf(HasSubstr("truncated"), HasSubstr("found 30 bytes")));
  EXPECT_THAT(error_in(npy("('descr', 1)", "")), HasSubstr("no '{' at byte 10"));
  EXPECT_THAT(error_in(npy("{'descr': '<f4', 'shape': (1,)}", floats(1))), HasSubstr("lacks \"fortran_order\""));
  EXPECT_THAT(error_in(npy("{'descr': '<f4', 'descr': '<f4'}", "")), HasSubstr("a second \"descr\" at byte 27"));
  EXPECT_THAT(error_in(npy("{1: 2}", "")), HasSubstr("no key in quotes at byte 11"));
  EXPECT_THAT(error_in(npy("{'x': 1}", "")), HasSubstr("unknown key \"x\" at byte 11"));
  EXPECT_THAT(error_in(npy(header_of("<f4", "(2, -1)"), "")), HasSubstr("no valid length of a dim"));
  EXPECT_THAT(error_in(npy("{'fortran_order': 1}", "")), HasSubstr("neither True nor False at byte 28"));
  EXPECT_THAT(error_in(npy("{'shape': (1,)} + 1", "")), HasSubstr("text after the closing brace at byte 26"));
  EXPECT_THAT(error_in(npy("{'descr': '<f4", "")), HasSubstr("without closing quote"));
}

TEST(Npy, RefusesWhatTensorsCannotHold) {
  for (const char* type : {"|O", "<u2", "<U5", "<c8", "<M8[ns]", ""})
    EXPECT_THAT(error_in(npy(header_of(type, "(1,)"), floats(4))), AllOf(HasSubstr("dtype"), HasSubstr("astype")))
        << type;
  EXPECT_THAT(error_in(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", floats(1))),
              HasSubstr("plain numbers at byte 20"));
  EXPECT_THAT(error_in(npy(header_of("<f8", "(4000000000, 4000000000)"), "")), HasSubstr("2^48"));
  EXPECT_THAT(error_in(npy(header_of("<f8", "(99999999999999999999,)"), "")), HasSubstr("no valid length"));
}

TEST(Npy, RefusesFilesOfAnotherSizeThanTheirHeaderSays) {
  EXPECT_THAT(error_in(npy(header_of("<f4", "(3,)"), floats(2))),
              AllOf(HasSubstr("truncated .npy"), HasSubstr("[3] of Float")));
  EXPECT_THAT(error_in(npy(header_of("<f4", "(3,)"), floats(4))), HasSubstr("surplus bytes"));
}

TEST(Npz, RefusesDamagedArchives) {
  TemporaryFolder folder;
  write_file(folder / "a.npz", npy(header_of("<f4", "(1,)"), floats(1)));
  EXPECT_THAT(error_of([&] { read_npz(folder / "a.npz"); }), AllOf(HasSubstr("a.npz"), HasSubstr("numpy.savez")));
  EXPECT_THAT(error_of([&] { read_npz(folder / "no.npz"); }), HasSubstr("no.npz"));
}

class OpenTensors : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& descr, const std::string& shape, const std::string& values) {
    write_file(folder_ / name, npy(header_of(descr, shape), values));
  }
  DataSpec spec(const std::string& data, const std::string& target) {
    return {.name = "tensors",
            .train_files = {folder_ / data, folder_ / target},
            .test_files = {folder_ / data, folder_ / target}};
  }
  TemporaryFolder folder_;
};

TEST_F(OpenTensors, TellsTheTaskFromTypesAndShapes) {
  write("x.npy", "<f4", "(4, 3)", floats(12));
  write("image.npy", "<f4", "(2, 1, 3, 2)", floats(12));
  write("token.npy", "<i8", "(2, 3)", bytes_of<int64_t>({0, 1, 2, 3, 4, 5}));
  write("class.npy", "<i4", "(4,)", bytes_of<int32_t>({0, 2, 1, 0}));
  write("value.npy", "<f8", "(4,)", bytes_of<double>({1, 2, 3, 4}));
  write("mask.npy", "|u1", "(2, 3, 2)", std::string("\0\1\2\3\0\0\0\0\0\0\0\0", 12));
  write("next.npy", "<i8", "(2, 3)", bytes_of<int64_t>({1, 2, 3, 4, 5, 6}));
  const TaskData kinds = open_data(spec("x.npy", "class.npy"));
  EXPECT_EQ(kinds.train->task(), LearningTask::classification);
  EXPECT_EQ(kinds.train->classes(), 3);
  EXPECT_EQ(kinds.train->get(std::vector<int64_t>{1}, {}).target.item<int64_t>(), 2);
  const TaskData values = open_data(spec("x.npy", "value.npy"));
  EXPECT_EQ(values.train->task(), LearningTask::regression);
  EXPECT_EQ(values.train->target_shape(), Shape{1});
  const TaskData masks = open_data(spec("image.npy", "mask.npy"));
  EXPECT_EQ(masks.train->task(), LearningTask::segmentation);
  EXPECT_EQ(masks.train->classes(), 4);
  EXPECT_TRUE(masks.train->get(std::vector<int64_t>{0, 1}, {}).data.is_contiguous(at::MemoryFormat::ChannelsLast));
  DataSpec tokens = spec("token.npy", "next.npy");
  tokens.tensors.vocabulary = 7;
  const TaskData stream = open_data(tokens);
  EXPECT_EQ(stream.train->task(), LearningTask::language);
  EXPECT_EQ(stream.train->classes(), 7);
  EXPECT_EQ(stream.train->get(std::vector<int64_t>{0}, {}).data.scalar_type(), at::kLong);
}

TEST_F(OpenTensors, ReadsDataAndTargetFromOneFile) {
  const auto file = folder_ / "set.safetensors";
  write_safetensors(file,
                    {{"data", at::arange(6, at::kFloat).view({3, 2})}, {"target", at::tensor({2, 0, 1}, at::kLong)}});
  const TaskData task = open_data({.name = "tensors", .test_limit = 1, .train_files = {file}, .test_files = {file}});
  EXPECT_THAT(task.source, AllOf(HasSubstr("samples of [2], classification"), HasSubstr("1 of 3 test samples")));
  EXPECT_TRUE(
      at::equal(task.train->get(std::vector<int64_t>{2, 0}, {}).data, at::tensor({4.f, 5.f, 0.f, 1.f}).view({2, 2})));
  write_safetensors(file, {{"data", at::ones({3, 2})}});
  EXPECT_THAT(error_of([&] { open_data({.name = "tensors", .train_files = {file}, .test_files = {file}}); }),
              HasSubstr("no tensor \"target\""));
}

TEST_F(OpenTensors, NamesWhatDoesNotFit) {
  write("x.npy", "<f4", "(4, 3)", floats(12));
  write("class.npy", "<i4", "(4,)", bytes_of<int32_t>({0, 2, 1, -1}));
  write("three.npy", "<i4", "(3,)", bytes_of<int32_t>({0, 2, 1}));
  EXPECT_THAT(error_of([&] { open_data(spec("x.npy", "class.npy")); }),
              AllOf(HasSubstr("class.npy: target of sample 3: -1"), HasSubstr("0 to 2")));
  EXPECT_THAT(error_of([&] { open_data(spec("x.npy", "three.npy")); }),
              HasSubstr("three.npy: data: 4 samples and 3 targets"));
  write("one.npy", "<i4", "(4,)", bytes_of<int32_t>({0, 0, -1, 0}));
  EXPECT_THAT(error_of([&] { open_data(spec("x.npy", "one.npy")); }), HasSubstr("one.npy: 1 class"));
  DataSpec one = spec("x.npy", "three.npy");
  one.train_files.pop_back();
  EXPECT_THAT(error_of([&] { open_data(one); }), AllOf(HasSubstr("data.train: 1 file"), HasSubstr("two .npy")));
  write("same.npy", "<i4", "(4,)", bytes_of<int32_t>({0, 0, 0, 0}));
  EXPECT_THAT(error_of([&] { open_data(spec("x.npy", "same.npy")); }),
              AllOf(HasSubstr("same.npy: 1 class"), HasSubstr("at least two")));
  DataSpec stated = spec("x.npy", "same.npy");
  stated.tensors.classes = 2;
  EXPECT_EQ(open_data(stated).train->classes(), 2);
  DataSpec task = spec("x.npy", "x.npy");
  task.tensors.task = LearningTask::classification;
  EXPECT_THAT(error_of([&] { open_data(task); }),
              AllOf(HasSubstr("targets of shape [4, 3]"), HasSubstr("classification takes [n]")));
}

TEST_F(OpenTensors, NumbersAreNotRoundedToClassesOrTokens) {
  write("x.npy", "<f4", "(4, 3)", floats(12));
  write("nan.npy", "<f4", "(4, 3)", bytes_of<float>({0, 1, 2, 3, std::nanf(""), 5, 6, 7, 8, 9, 10, 11}));
  write("half.npy", "<f4", "(4,)", bytes_of<float>({0, 1, 0.5f, 1}));
  write("infinite.npy", "<f8", "(4,)", bytes_of<double>({0, 1, 2, std::numeric_limits<double>::infinity()}));
  write("class.npy", "<f4", "(4,)", bytes_of<float>({0, 2, 1, 0}));
  write("huge.npy", "<i8", "(4,)", bytes_of<int64_t>({0, 2, 1'000'000'000'000, 0}));
  const auto error = [&](const std::string& data, const std::string& target, LearningTask task,
                         int64_t vocabulary = 0) {
    DataSpec s = spec(data, target);
    s.tensors.task = task;
    s.tensors.vocabulary = vocabulary;
    return error_of([&] { open_data(s); });
  };
  constexpr auto kClasses = LearningTask::classification, kNumbers = LearningTask::regression;
  EXPECT_THAT(error("x.npy", "half.npy", kClasses),
              AllOf(HasSubstr("half.npy: target of sample 2: 0.5"), HasSubstr("whole numbers")));
  EXPECT_THAT(error("x.npy", "infinite.npy", kClasses), HasSubstr("target of sample 3: inf"));
  EXPECT_THAT(error("x.npy", "infinite.npy", kNumbers),
              AllOf(HasSubstr("target of sample 3: inf"), HasSubstr("must be finite")));
  EXPECT_THAT(error("nan.npy", "class.npy", kClasses),
              AllOf(HasSubstr("nan.npy: data of sample 1: nan"), HasSubstr("must be finite")));
  EXPECT_THAT(error("nan.npy", "class.npy", kClasses, 20),
              AllOf(HasSubstr("data of sample 1: nan"), HasSubstr("whole numbers")));
  EXPECT_THAT(error("x.npy", "huge.npy", kClasses), HasSubstr("huge.npy: more than 16,777,216 classes"));
  DataSpec whole = spec("x.npy", "class.npy");
  whole.tensors.task = kClasses;
  EXPECT_EQ(open_data(whole).train->classes(), 3);
  whole.path = folder_.path();
  EXPECT_THAT(error_of([&] { open_data(whole); }),
              AllOf(HasSubstr("data.path"), HasSubstr("tensors consists of the files")));
}

}  // namespace
}  // namespace trireme
