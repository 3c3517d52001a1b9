#include "model/weights/state_dict.h"

#include <ATen/ATen.h>
#include <c10/core/Storage.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "model/weights/pickle.h"
#include "model/weights/safetensors_header.h"
#include "model/weights/script_attributes.h"
#include "model/weights/torch_archive.h"
#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Kind = PickleValue::Kind;

constexpr std::array<std::string_view, 3> kNestedKeys{"state_dict", "model_state_dict", "model"};
constexpr int kMostWrappers = 4;       // for example a parameter around a tensor, and a subclass around that
constexpr size_t kMostStateDims = 64;  // the limit of libtorch's kernels
constexpr size_t kStateNamesShown = 5;

struct NamedDtype {
  std::string_view name;
  at::ScalarType dtype;
};
constexpr std::array<NamedDtype, 10> kStorages{{
    {"DoubleStorage", at::kDouble},
    {"FloatStorage", at::kFloat},
    {"HalfStorage", at::kHalf},
    {"BFloat16Storage", at::kBFloat16},
    {"LongStorage", at::kLong},
    {"IntStorage", at::kInt},
    {"ShortStorage", at::kShort},
    {"CharStorage", at::kChar},
    {"ByteStorage", at::kByte},
    {"BoolStorage", at::kBool},
}};

/// Creates tensors from the pickle values that represent them. Loads each storage once.
class TensorReader {
 public:
  TensorReader(TorchArchive& archive, const fs::path& path) : archive_(archive), path_(path) {}

  static bool is_tensor(const PickleValue& value) {
    return value.callee_name().starts_with("torch._utils._rebuild") ||
           value.callee_name().starts_with("torch._tensor._rebuild");
  }
  at::Tensor read(const std::string& name, const PickleValue& value);

 private:
  [[noreturn]] void fail(const std::string& name, std::string what, std::string why, std::string next = {}) const;
  at::Tensor rebuild(const std::string& name, const PickleValue& arguments);
  c10::Storage storage(const std::string& name, const PickleValue& value, at::ScalarType* dtype);
  int64_t integer(const std::string& name, const PickleValue& value) const;
  std::vector<int64_t> integers(const std::string& name, const PickleValue& value) const;
  /// Checks that the tensor does not extend beyond its storage. Units: elements, from the storage's begin.
  void check_reach(const std::string& name, const Shape& sizes, const Shape& strides, int64_t offset,
                   at::ScalarType dtype, size_t bytes) const;

  TorchArchive& archive_;
  const fs::path& path_;
  std::map<std::string, c10::Storage> storages_;
};

void TensorReader::fail(const std::string& name, std::string what, std::string why, std::string next) const {
  fail_user({.where = path_.string(),
             .what = fmt::format("tensor \"{}\": {}", printable(name), what),
             .why = std::move(why),
             .next = next.empty() ? "the file is damaged: get it again or save it anew" : std::move(next)});
}

int64_t TensorReader::integer(const std::string& name, const PickleValue& value) const {
  if (!value.is(Kind::integer) || value.integer < 0)
    fail(name, "a malformed tensor", "sizes, strides and offsets are whole numbers from 0 on");
  return value.integer;
}

std::vector<int64_t> TensorReader::integers(const std::string& name, const PickleValue& value) const {
  if (!value.is(Kind::sequence) || value.items.size() > kMostStateDims)
    fail(name, "a malformed tensor",
         fmt::format("its sizes and strides are tuples of at most {} numbers", kMostStateDims));
  std::vector<int64_t> numbers;
  for (const PickleValue* item : value.items) numbers.push_back(integer(name, *item));
  return numbers;
}

at::Tensor TensorReader::read(const std::string& name, const PickleValue& value) {
  // _rebuild_parameter(tensor, ...) and _rebuild_from_type_v2(function, type, arguments, state) wrap the call that is
  // needed here
  std::string_view function = value.callee_name();
  const PickleValue* arguments = value.arguments;
  for (int wrapper = 0; wrapper < kMostWrappers; ++wrapper) {
    const auto& items = arguments->items;
    if (function.starts_with("torch._utils._rebuild_parameter") && !items.empty() && items[0]->is(Kind::object)) {
      function = items[0]->callee_name();
      arguments = items[0]->arguments;
    } else if (function == "torch._tensor._rebuild_from_type_v2" && items.size() > 2 && items[0]->is(Kind::global)) {
      function = items[0]->text;
      arguments = items[2];
    } else {
      break;
    }
  }
  const bool dense = function == "torch._utils._rebuild_tensor" || function == "torch._utils._rebuild_tensor_v2" ||
                     function == "torch._utils._rebuild_tensor_v3";
  if (!dense)
    fail(name, fmt::format("made by {}", printable(function)), "only dense tensors are read",
         "convert it in Python (tensor.to_dense(), tensor.dequantize()) and save the state dict again");
  return rebuild(name, *arguments);
}

at::Tensor TensorReader::rebuild(const std::string& name, const PickleValue& arguments) {
  // arguments of _rebuild_tensor and its successors
  constexpr size_t kStorage = 0, kOffset = 1, kSizes = 2, kStrides = 3;
  constexpr size_t kDtype = 6;  // argument of _rebuild_tensor_v3
  const auto& items = arguments.items;
  if (items.size() <= kStrides)
    fail(name, "a malformed tensor", fmt::format("it has {} of its 4 arguments", items.size()));
  at::ScalarType dtype = at::ScalarType::Undefined;
  const c10::Storage whole = storage(name, *items[kStorage], &dtype);
  if (dtype == at::ScalarType::Undefined)
    fail(name,
         items.size() > kDtype ? fmt::format("dtype {}", printable(items[kDtype]->text)) : "storage without a dtype",
         "Trireme does not support this dtype", "convert it in Python (tensor.float()) and save the state dict again");
  const Shape sizes = integers(name, *items[kSizes]), strides = integers(name, *items[kStrides]);
  const int64_t offset = integer(name, *items[kOffset]);
  check_reach(name, sizes, strides, offset, dtype, whole.nbytes());
  try {
    return at::empty({0}, at::TensorOptions().dtype(dtype)).set_(whole, offset, sizes, strides);
  } catch (const c10::Error& error) {
    fail(name, "a malformed tensor", first_line(error));
  }
}

void TensorReader::check_reach(const std::string& name, const Shape& sizes, const Shape& strides, int64_t offset,
                               at::ScalarType dtype, size_t bytes) const {
  if (sizes.size() != strides.size())
    fail(name, fmt::format("sizes {}, strides {}", to_string(sizes), to_string(strides)),
         "both must have the same length");
  const std::string what = fmt::format("sizes {}, strides {}, offset {}", to_string(sizes), to_string(strides), offset);
  if (!tensor_bytes(sizes, dtype)) fail(name, what, "its size in bytes exceeds 2^63 - 1");
  int64_t last = offset;  // index of the last element
  bool empty = false, overflow = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t step = 0;
    empty |= sizes[d] == 0;
    if (sizes[d] > 0)
      overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &step) || __builtin_add_overflow(last, step, &last);
  }
  const int64_t elements = int64_t(bytes / c10::elementSize(dtype));
  if (overflow || (empty ? offset > elements : last >= elements))
    fail(name, what, fmt::format("its storage holds {} elements", elements));
}

c10::Storage TensorReader::storage(const std::string& name, const PickleValue& value, at::ScalarType* dtype) {
  // the id: ("storage", type, key, location, elements)
  constexpr size_t kTag = 0, kType = 1, kKey = 2, kElements = 4;
  const std::vector<const PickleValue*> none;
  const auto& id = value.is(Kind::persistent) ? value.arguments->items : none;
  if (id.size() <= kElements || id[kTag]->text != "storage" || !id[kType]->is(Kind::global) ||
      !id[kKey]->is(Kind::text))
    fail(name, "a malformed tensor", "it has no storage");
  const std::string& type = id[kType]->text;
  const std::string_view type_name = std::string_view(type).substr(type.rfind('.') + 1);
  for (const NamedDtype& known : kStorages)
    if (known.name == type_name) *dtype = known.dtype;
  if (*dtype == at::ScalarType::Undefined && type_name != "UntypedStorage")
    fail(name, fmt::format("storage of type {}", printable(type)), "Trireme does not support this dtype",
         "convert it in Python (tensor.float()) and save the state dict again");
  const std::string& key = id[kKey]->text;
  if (const auto found = storages_.find(key); found != storages_.end()) return found->second;
  auto [data, bytes] = archive_.record("data/" + key);
  return storages_.emplace(key, c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), nullptr, false))
      .first->second;
}

bool has_tensors(const PickleValue& value) {
  if (!value.is(Kind::dict)) return false;
  for (const auto& [key, entry] : value.entries)
    if (TensorReader::is_tensor(*entry)) return true;
  return false;
}

[[noreturn]] void fail_no_weights(const fs::path& path, const PickleValue& root) {
  const std::string name = path.filename().string();
  if (root.is(Kind::object))
    fail_user(
        {.where = path.string(),
         .what = fmt::format("a pickled object of class {}", printable(root.callee_name())),
         .why = "loading an object would run its code, which Trireme never does; it reads weights from a state dict",
         .next = fmt::format(
             "in Python, where its class is available: torch.save(torch.load(\"{}\").state_dict(), \"weights.pt\")",
             name)});
  std::vector<std::string> keys;
  for (const auto& [key, entry] : root.entries) keys.push_back(key->text);
  fail_user({.where = path.string(),
             .what = "no state dict",
             .why = keys.empty() ? "neither dict nor OrderedDict of tensors"
                                 : fmt::format("no tensors under its keys: {}", list_names(keys, kStateNamesShown)),
             .next = fmt::format(
                 "in Python: torch.save(torch.load(\"{}\")[...], \"weights.pt\") with the dict of tensors", name)});
}

const PickleValue& find_state_dict(const fs::path& path, const PickleValue& root) {
  for (std::string_view key : kNestedKeys)
    if (const PickleValue* nested = root.find(key); nested && root.is(Kind::dict) && has_tensors(*nested))
      return *nested;
  if (!has_tensors(root)) fail_no_weights(path, root);
  return root;
}

Weights read_dict(const fs::path& path, const PickleValue& root, TensorReader& reader) {
  Weights weights;
  for (const auto& [key, value] : find_state_dict(path, root).entries) {
    if (key->is(Kind::text) && TensorReader::is_tensor(*value))
      weights.tensors.insert_or_assign(key->text, reader.read(key->text, *value));
    else weights.not_tensors.push_back(key->is(Kind::text) ? key->text : "a key that is no string");
  }
  return weights;
}

Weights read_script(const fs::path& path, const PickleValue& root, TorchArchive& archive, TensorReader& reader) {
  Weights weights;
  for (const ScriptAttribute& attribute : script_attributes(root, archive, path))
    if (TensorReader::is_tensor(*attribute.value))
      weights.tensors.insert_or_assign(attribute.name, reader.read(attribute.name, *attribute.value));
  if (weights.tensors.empty())
    fail_user({.where = path.string(),
               .what = "TorchScript without parameters",
               .why = "a frozen module's weights are constants of its code",
               .next = "save it before torch.jit.freeze or optimize_for_inference"});
  return weights;
}

}  // namespace

Weights read_state_dict(const fs::path& path) {
  TorchArchive archive(path);
  const std::string bytes = archive.text("data.pkl");
  const Pickle pickle(bytes, fmt::format("{}: data.pkl", path.string()));
  TensorReader reader(archive, path);
  const PickleValue& root = pickle.root();
  const bool script = root.is(Kind::object) && root.callee_name().starts_with("__torch__.");
  return script ? read_script(path, root, archive, reader) : read_dict(path, root, reader);
}

}  // namespace trireme
