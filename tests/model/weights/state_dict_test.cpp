// PyTorch archives made by hand with content that Python never writes. weights_oracle.py tests the rest.
#include "model/weights/state_dict.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/json_file.h"
#include "model/weights/pickle.h"
#include "support.h"

namespace trireme::test_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// -- pickles, opcode by opcode (pickletools.py lists the names)
std::string text(const std::string& value) { return fmt::format("X{}{}", little_endian(value.size(), 4), value); }
std::string global(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string number(int64_t value) { return "\x8a\x08" + little_endian(uint64_t(value), 8); }
std::string tuple(const std::vector<std::string>& items) {
  std::string bytes = "(";
  for (const std::string& item : items) bytes += item;
  return bytes + "t";
}
std::string numbers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (int64_t value : values) items.push_back(number(value));
  return tuple(items);
}
std::string storage(const std::string& key, const std::string& type = "FloatStorage", int64_t elements = 6) {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"), number(elements)}) + "Q";
}
std::string tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple({storage, number(offset), numbers(sizes), numbers(strides), "\x89",
                global("collections", "OrderedDict") + ")R"}) +
         "R";
}
std::string dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string bytes = "}(";
  for (const auto& [key, value] : entries) bytes += text(key) + value;
  return bytes + "u";
}
std::string object(const std::string& module, const std::string& name,
                   const std::vector<std::pair<std::string, std::string>>& state) {
  return global(module, name) + ")\x81" + dict(state) + "b";
}
std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

class StateDict : public WeightsFiles {
 protected:
  using Records = std::vector<std::pair<std::string, std::string>>;

  fs::path archive(const Records& records) const {
    const fs::path path = folder_ / "x.pt";
    caffe2::serialize::PyTorchStreamWriter writer(path.string());
    for (const auto& [name, bytes] : records) writer.writeRecord(name, bytes.data(), bytes.size());
    writer.writeEndOfFile();
    return path;
  }
  /// An archive with one storage, "0", of six floats 0, 1, ...
  fs::path with_storage(const std::string& value) const {
    const at::Tensor six = at::arange(6, at::kFloat);
    return archive({{"data.pkl", pickle(value)}, {"data/0", {static_cast<const char*>(six.data_ptr()), six.nbytes()}}});
  }
  std::string error(const std::string& value) const {
    const fs::path path = with_storage(value);
    return user_error([&] { read_state_dict(path); });
  }
  std::string tensor_error(int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                           const std::string& type = "FloatStorage") const {
    return error(dict({{"w", tensor(storage("0", type), offset, sizes, strides)}}));
  }
};

TEST_F(StateDict, ViewsOfOneStorageShareIt) {
  const Weights weights = read_state_dict(with_storage(dict({{"w", tensor(storage("0"), 0, {2, 3}, {3, 1})},
                                                             {"transposed", tensor(storage("0"), 0, {3, 2}, {1, 3})},
                                                             {"tail", tensor(storage("0"), 4, {2}, {1})},
                                                             {"none", tensor(storage("0"), 6, {0, 5}, {5, 1})}})));
  const at::Tensor whole = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_TRUE(at::equal(weights.tensors.at("w"), whole));
  EXPECT_TRUE(at::equal(weights.tensors.at("transposed"), whole.t()));
  EXPECT_TRUE(at::equal(weights.tensors.at("tail"), at::tensor({4.0f, 5.0f})));
  EXPECT_EQ(weights.tensors.at("none").numel(), 0);
  EXPECT_EQ(weights.tensors.at("tail").data_ptr<float>(), weights.tensors.at("w").data_ptr<float>() + 4);
}

TEST_F(StateDict, ATensorMustStayWithinItsStorage) {
  EXPECT_THAT(tensor_error(0, {7}, {1}),
              HasSubstr("tensor \"w\": sizes [7], strides [1], offset 0: its storage holds 6 elements"));
  EXPECT_THAT(tensor_error(1, {6}, {1}), HasSubstr("holds 6 elements"));
  EXPECT_THAT(tensor_error(0, {2, 3}, {4, 1}), HasSubstr("holds 6 elements"));
  EXPECT_THAT(tensor_error(6, {}, {}), HasSubstr("holds 6 elements"));
  EXPECT_THAT(tensor_error(7, {0}, {1}), HasSubstr("holds 6 elements"));
  EXPECT_THAT(tensor_error(0, {4}, {1}, "DoubleStorage"), HasSubstr("holds 3 elements"));
  EXPECT_THAT(tensor_error(0, {3}, {int64_t{1} << 62}), HasSubstr("holds 6 elements"));
  EXPECT_THAT(tensor_error(INT64_MAX, {2}, {1}), HasSubstr("holds 6 elements"));
  EXPECT_THAT(tensor_error(0, {int64_t{1} << 62, 2}, {0, 0}), HasSubstr("exceeds 2^63"));
  EXPECT_THAT(tensor_error(0, {6}, {-1}), HasSubstr("whole numbers from 0 on"));
  EXPECT_THAT(tensor_error(-1, {6}, {1}), HasSubstr("whole numbers from 0 on"));
  EXPECT_THAT(tensor_error(0, {6}, {}), HasSubstr("both must have the same length"));
  EXPECT_THAT(tensor_error(0, std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1)), HasSubstr("at most 64"));
}

TEST_F(StateDict, MalformedTensorsAreNamed) {
  const std::string rebuild = global("torch._utils", "_rebuild_tensor_v2");
  EXPECT_THAT(error(dict({{"w", tensor(storage("9"), 0, {6}, {1})}})), HasSubstr("no record \"data/9\""));
  EXPECT_THAT(error(dict({{"w", tensor(storage("0", "ComplexFloatStorage"), 0, {3}, {1})}})),
              HasSubstr("storage of type torch.ComplexFloatStorage"));
  EXPECT_THAT(error(dict({{"w", tensor("N", 0, {6}, {1})}})), HasSubstr("it has no storage"));
  EXPECT_THAT(error(dict({{"w", tensor("K\x01Q", 0, {6}, {1})}})), HasSubstr("it has no storage"));
  EXPECT_THAT(error(dict({{"w", rebuild + ")R"}})), HasSubstr("0 of its 4 arguments"));
  EXPECT_THAT(error(dict({{"w", rebuild + tuple({storage("0"), number(0), "N", "N"}) + "R"}})), HasSubstr("tuples"));
  EXPECT_THAT(error(dict({{"w", global("torch._utils", "_rebuild_sparse_tensor") + ")R"}})),
              HasSubstr("only dense tensors are read"));
  std::string wrapped = tensor(storage("0"), 0, {6}, {1});
  for (int i = 0; i < 100; ++i) wrapped = global("torch._utils", "_rebuild_parameter") + "(" + wrapped + "tR";
  EXPECT_THAT(error(dict({{"w", wrapped}})), HasSubstr("only dense tensors are read"));
}

TEST_F(StateDict, WhatIsNoTensorIsListedAndNothingIsRun) {
  const fs::path trace = folder_ / "ran";
  const std::string call = global("os", "system") + tuple({text("touch " + trace.string())}) + "R";
  const std::string entries = dict({{"w", tensor(storage("0"), 0, {6}, {1})}, {"evil", call}, {"epoch", "K\x03"}});
  const Weights weights = read_state_dict(with_storage(entries));
  EXPECT_EQ(weights.tensors.size(), 1u);
  EXPECT_EQ(weights.not_tensors, (std::vector<std::string>{"evil", "epoch"}));
  EXPECT_THAT(error(call), AllOf(HasSubstr("a pickled object of class os.system"), HasSubstr("state_dict()")));
  EXPECT_FALSE(fs::exists(trace));
}

TEST_F(StateDict, TheTensorsMayLieUnderAKey) {
  const std::string tensors = dict({{"w", tensor(storage("0"), 0, {6}, {1})}});
  for (const std::string key : {"state_dict", "model_state_dict", "model"}) {
    const std::string checkpoint =
        dict({{"epoch", "K\x03"}, {key, tensors}, {"loss", tensor(storage("0"), 0, {}, {})}});
    const Weights weights = read_state_dict(with_storage(checkpoint));
    EXPECT_EQ(weights.tensors.size(), 1u) << key;
    EXPECT_EQ(weights.tensors.count("w"), 1u) << key;
  }
  EXPECT_THAT(error(dict({{"ema", tensors}, {"epoch", "K\x03"}})),
              HasSubstr("no tensors under its keys: \"ema\", \"epoch\""));
  EXPECT_THAT(error("]"), HasSubstr("neither dict nor OrderedDict"));
}

TEST_F(StateDict, DamagedArchivesAreNamed) {
  const fs::path path = with_storage(dict({{"w", tensor(storage("0"), 0, {6}, {1})}}));
  const std::string whole = read_file(path);
  // Not every length, because each of libtorch's errors takes milliseconds.
  for (size_t length = 0; length < whole.size(); length += 41)
    EXPECT_THAT(user_error([&] { read_state_dict(write("cut.pt", whole.substr(0, length))); }), HasSubstr("cut.pt"));
  EXPECT_THAT(user_error([&] { read_state_dict(archive({{"other", "x"}})); }), HasSubstr("without data.pkl"));
  EXPECT_THAT(user_error([&] {
                read_state_dict(archive({{"data.pkl", "x"}, {"byteorder", "big"}}));
              }),
              HasSubstr("big-endian"));
  EXPECT_THAT(user_error([&] { read_state_dict(write("p.pt", pickle("}"))); }), HasSubstr("a plain pickle"));
  EXPECT_THAT(user_error([&] { read_state_dict(write("t.pt", "text")); }), HasSubstr("not a PyTorch file"));
  EXPECT_THAT(user_error([&] { read_state_dict(folder_ / "gone.pt"); }), HasSubstr("No such file"));
}

TEST_F(StateDict, AFlippedByteIsNoticed) {
  const fs::path path = with_storage(dict({{"w", tensor(storage("0"), 0, {6}, {1})}}));
  const std::string whole = read_file(path);
  const at::Tensor six = at::arange(6, at::kFloat);
  const std::string floats(static_cast<const char*>(six.data_ptr()), six.nbytes());
  const size_t data = whole.find(floats), value = whole.find("FloatStorage");
  ASSERT_NE(data, std::string::npos);
  ASSERT_NE(value, std::string::npos);
  const auto error_with = [&](size_t position) {
    std::string flipped = whole;
    flipped[position] = char(flipped[position] ^ 0x10);
    return user_error([&] { read_state_dict(write("flipped.pt", flipped)); });
  };
  for (size_t i = 0; i < floats.size(); ++i)
    EXPECT_THAT(error_with(data + i),
                AllOf(HasSubstr("flipped.pt"), HasSubstr("record \"data/0\""), HasSubstr("checksum")))
        << i;
  EXPECT_THAT(error_with(value), AllOf(HasSubstr("record \"data.pkl\""), HasSubstr("checksum")));
}

/// PyTorch can be told to write no checksums; they are 0 then.
TEST_F(StateDict, ChecksumsMayBeLeftOut) {
  std::string bytes = read_file(with_storage(dict({{"w", tensor(storage("0"), 0, {6}, {1})}})));
  constexpr size_t kChecksum = 16;  // offset in a directory entry
  for (size_t entry = bytes.find("PK\x01\x02"); entry != std::string::npos; entry = bytes.find("PK\x01\x02", entry + 1))
    bytes.replace(entry + kChecksum, 4, 4, '\0');
  EXPECT_TRUE(at::equal(read_state_dict(write("none.pt", bytes)).tensors.at("w"), at::arange(6, at::kFloat)));
}

// -- TorchScript

TEST_F(StateDict, ScriptModulesThatHoldEachOtherEnd) {
  // A module that is memoized before its state contains itself.
  const std::string circle = global("__torch__", "M") + ")\x81q\x01}(" + text("m") + "h\x01" + "ub";
  EXPECT_THAT(error(circle), HasSubstr("modules are nested deeper than 200"));
  // Each of 60 modules contains the one before it twice: 2^60 names.
  std::string module = object("__torch__", "M", {{"w", tensor(storage("0"), 0, {6}, {1})}});
  for (char level = 1; level < 60; ++level)
    module = module + "q" + level + "0" +
             object("__torch__", "M", {{"a", std::string("h") + level}, {"b", std::string("h") + level}});
  EXPECT_THAT(error(module), HasSubstr("more than 1000000 attributes"));
}

TEST_F(StateDict, ScriptWithoutWeightsIsNamed) {
  EXPECT_THAT(error(object("__torch__", "M", {{"training", "\x88"}})), HasSubstr("TorchScript without parameters"));
}

// -- the pickle machine

std::string pickle_error(const std::string& bytes) {
  return user_error([&] { Pickle(bytes, "x: data.pkl"); });
}

TEST(PickleStream, CutAtAnyByte) {
  const std::string whole = pickle(dict({{"w", tensor(storage("0"), 0, {2, 3}, {3, 1})}, {"n", "K\x03"}}));
  EXPECT_EQ(Pickle(whole, "x").root().entries.size(), 2u);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THAT(pickle_error(whole.substr(0, length)), AllOf(HasSubstr("x: data.pkl: "), HasSubstr("at byte")))
        << length;
}

TEST(PickleStream, EveryOpcodeAloneIsAnErrorOrAValue) {
  for (int opcode = 0; opcode < 256; ++opcode)
    for (const std::string before : {"", "N", "NN", "NNN", "(", "(N", "}", "](", "K\x01", ")"}) {
      try {
        Pickle(before + char(opcode) + std::string(16, '\x01') + ".", "x");
      } catch (const Error& error) {
        EXPECT_EQ(int(error.blame()), int(Blame::user));
      }
    }
}

TEST(PickleStream, Values) {
  const auto root = [](const std::string& bytes) { return Pickle(bytes, "x"); };
  EXPECT_EQ(root("J\xfe\xff\xff\xff.").root().integer, -2);
  EXPECT_EQ(root("M\x01\x02.").root().integer, 513);
  EXPECT_EQ(root(std::string("\x8a\x00.", 3)).root().integer, 0);
  EXPECT_EQ(root(std::string("\x8a\x02\x00\xff.", 5)).root().integer, -256);
  EXPECT_EQ(root("\x8a\x09" + std::string(9, '\x7f') + ".").root().kind, PickleValue::Kind::other);
  EXPECT_EQ(root(std::string("G\x40\x09\x21\xfb\x54\x44\x2d\x18.", 10)).root().real, 3.141592653589793);
  EXPECT_EQ(root("\x8c\x02hi.").root().text, "hi");
  EXPECT_EQ(root("\x8c\x01"
                 "a\x8c\x01"
                 "b\x93.")
                .root()
                .text,
            "a.b");
  const Pickle twice(dict({{"k", "K\x01"}, {"k", "K\x02"}}) + ".", "x");
  EXPECT_EQ(twice.root().find("k")->integer, 2) << "as in Python the last one counts";
}

TEST(PickleStream, ManyLevelsAreNoTrouble) {
  const Pickle deep(std::string(1'000'000, ']') + std::string(999'999, 'a') + ".", "x");
  EXPECT_EQ(deep.root().items.size(), 1u);
}

TEST(PickleStream, ValuesAreBounded) {
  EXPECT_THAT(pickle_error(std::string(4'000'001, 'N')), HasSubstr("more than 4000000 values"));
}

}  // namespace
}  // namespace trireme::test_support
