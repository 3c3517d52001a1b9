#include "model/weights/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "base/text.h"
#include "base/units.h"
#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian and are read and written as they are");

constexpr size_t kHeaderAlignment = 8;
constexpr size_t kTensorNamesShown = 3;

[[noreturn]] void fail_file(const fs::path& path, std::string what, std::string why) {
  fail_user({.where = path.string(),
             .what = std::move(what),
             .why = std::move(why),
             .next = "check that it is a safetensors file and complete: get it again or write it anew"});
}

/// Returns the header's text. A stated length is accepted only if the file is that long.
std::string read_header(const InputFile& file) {
  if (file.size() < kSafetensorsPrefix)
    fail_file(file.path(), fmt::format("ends at byte {}", file.size()),
              fmt::format("a safetensors file starts with {} bytes that give the header's length", kSafetensorsPrefix));
  uint64_t length = 0;
  file.read(0, &length, sizeof length);
  if (length > kSafetensorsLongestHeader)
    fail_file(file.path(), fmt::format("a header of {} bytes at byte 0", length),
              fmt::format("the format allows {}", kSafetensorsLongestHeader));
  if (length > file.size() - kSafetensorsPrefix)
    fail_file(file.path(), fmt::format("a header of {} bytes at byte 0", length),
              fmt::format("the file ends at byte {}", file.size()));
  std::string text(length, '\0');
  file.read(kSafetensorsPrefix, text.data(), length);
  return text;
}

at::Tensor allocate(const StoredTensor& stored, const std::string& name, const fs::path& path) {
  try {
    return at::empty(stored.shape, at::TensorOptions().dtype(stored.dtype).device(at::kCPU));
  } catch (const std::exception&) {
    fail_run(
        {.where = path.string(),
         .what = fmt::format("tensor \"{}\" of {}", printable(name), format_bytes(int64_t(stored.end - stored.begin))),
         .why = "there is not enough memory for it",
         .next = "use a machine with more memory"});
  }
}

void check_booleans(const at::Tensor& tensor, const std::string& name, uint64_t first_byte, const fs::path& path) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.data_ptr());
  const auto* end = bytes + tensor.numel();
  const auto* bad = std::find_if(bytes, end, [](uint8_t value) { return value > 1; });
  if (bad != end)
    fail_file(path,
              fmt::format("value {} of BOOL tensor \"{}\" at byte {}", *bad, printable(name),
                          first_byte + uint64_t(bad - bytes)),
              "it must be 0 or 1");
}

std::string json_text(const std::string& text, const fs::path& path) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail_user({.where = path.string(),
               .what = fmt::format("\"{}\" cannot be written", printable(text)),
               .why = "it is not UTF-8",
               .next = "choose another name"});
  }
}

struct Named {
  const std::string* name;
  const at::Tensor* tensor;
};

/// Wide dtypes first; equal ones by name.
std::vector<Named> storage_order(const TensorMap& tensors, const fs::path& path) {
  std::vector<Named> order;
  for (const auto& [name, tensor] : tensors) {
    check_internal(tensor.defined(), "only defined tensors are written");
    const bool dense = tensor.layout() == at::kStrided && !tensor.is_quantized();
    if (!dense || !safetensors_dtype(tensor.scalar_type()) || name == "__metadata__")
      fail_user({.where = path.string(),
                 .what = fmt::format("tensor \"{}\" of type {}", printable(name), tensor.toString()),
                 .why = name == "__metadata__" ? "the format reserves this name" : "safetensors has no such type",
                 .next = name == "__metadata__" ? "rename it" : "convert it to a dense tensor of floats or integers"});
    order.push_back({&name, &tensor});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Named& a, const Named& b) { return a.tensor->element_size() > b.tensor->element_size(); });
  return order;
}

std::string header_text(const std::vector<Named>& order, const std::map<std::string, std::string>& metadata,
                        const fs::path& path) {
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata)
      pairs.push_back(fmt::format("{}:{}", json_text(key, path), json_text(value, path)));
    entries.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  uint64_t begin = 0;
  for (const Named& entry : order) {
    const uint64_t end = begin + uint64_t(entry.tensor->numel()) * entry.tensor->element_size();
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_text(*entry.name, path), *safetensors_dtype(entry.tensor->scalar_type()),
                                  fmt::join(entry.tensor->sizes(), ","), begin, end));
    begin = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(entries, ","));
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  if (text.size() > kSafetensorsLongestHeader)
    fail_user({.where = path.string(),
               .what = fmt::format("a header of {} bytes", text.size()),
               .why = fmt::format("safetensors allows {}", kSafetensorsLongestHeader),
               .next = "write fewer tensors or less metadata"});
  return text;
}

/// Reads the weight_map of an index and checks its form.
std::map<std::string, std::string> read_weight_map(const fs::path& path) {
  const nlohmann::json index = read_json_file(path);
  const auto fail = [&](const std::string& what, const std::string& why) {
    fail_user({.where = path.string(), .what = what, .why = why, .next = "get the index again"});
  };
  if (!index.is_object() || !index.contains("weight_map") || !index.at("weight_map").is_object())
    fail("not an index of safetensors files", "it has no object \"weight_map\"");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : index.at("weight_map").items()) {
    if (!file.is_string()) fail(fmt::format("file of tensor \"{}\"", printable(name)), "it is not a string");
    const auto text = file.get<std::string>();
    // an index from elsewhere must not refer to other files of this machine
    if (text.empty() || text == "." || text == ".." || text.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
      fail(fmt::format("file \"{}\" of tensor \"{}\"", printable(text), printable(name)),
           "it must be the name of a file in the same folder");
    files[name] = text;
  }
  return files;
}

}  // namespace

SafetensorsFile::SafetensorsFile(fs::path path) : file_(std::move(path)) {
  const std::string text = read_header(file_);
  data_start_ = kSafetensorsPrefix + text.size();
  header_ = parse_safetensors_header(text, file_.size() - data_start_, file_.path());
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) {
    std::vector<std::string> names;
    for (const auto& [known, tensor] : header_.tensors) names.push_back(known);
    fail_user({.where = file_.path().string(),
               .what = fmt::format("no tensor \"{}\"", printable(name)),
               .why = fmt::format("it holds {} tensors: {}", names.size(), list_names(names, kTensorNamesShown)),
               .next = "check the name"});
  }
  const StoredTensor& stored = found->second;
  at::Tensor tensor = allocate(stored, name, file_.path());
  file_.read(data_start_ + stored.begin, tensor.data_ptr(), stored.end - stored.begin);
  if (stored.dtype == at::kBool) check_booleans(tensor, name, data_start_ + stored.begin, file_.path());
  return tensor;
}

Weights read_safetensors(const fs::path& path) {
  const SafetensorsFile file(path);
  Weights weights{.tensors = {}, .metadata = file.header().metadata};
  for (const auto& [name, stored] : file.header().tensors) weights.tensors.emplace(name, file.read(name));
  return weights;
}

Weights read_safetensors_index(const fs::path& path) {
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files;
  Weights weights;
  for (const auto& [name, file_name] : read_weight_map(path)) {
    std::unique_ptr<SafetensorsFile>& file = files[file_name];
    if (!file) {
      file = std::make_unique<SafetensorsFile>(path.parent_path() / file_name);
      for (const auto& [key, value] : file->header().metadata) weights.metadata[key] = value;
    }
    weights.tensors.emplace(name, file->read(name));
  }
  return weights;
}

void write_safetensors(const std::function<void(std::string_view bytes)>& write, const fs::path& path,
                       const TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  const std::vector<Named> order = storage_order(tensors, path);
  const std::string header = header_text(order, metadata, path);
  const uint64_t length = header.size();
  std::string prefix(kSafetensorsPrefix, '\0');
  std::memcpy(prefix.data(), &length, sizeof length);
  write(prefix);
  write(header);
  for (const Named& entry : order) {
    const at::Tensor dense = entry.tensor->detach().to(at::kCPU).resolve_neg().contiguous();
    write({static_cast<const char*>(dense.data_ptr()), dense.nbytes()});
  }
}

void write_safetensors(const fs::path& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata) {
  AtomicFile file(path);
  write_safetensors([&](std::string_view bytes) { file.write(bytes); }, path, tensors, metadata);
  file.commit();
}

}  // namespace trireme
