#include "data/distributed_tensor.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "data/npy.h"
#include "data/sampler.h"
#include "model/weights/read_weights.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostDims = 16;  // of a sample, where its shape travels in a message

/// The samples of a file, of which a .npy need not be read whole.
struct FileSamples {
  Shape sample_shape;
  at::ScalarType dtype = at::kFloat;
  int64_t count = 0;
  std::function<at::Tensor(int64_t first, int64_t count)> rows;
};

at::Tensor named_tensor(const fs::path& file, const std::string& name) {
  std::map<std::string, at::Tensor> tensors;
  if (file.extension() == ".npz") {
    for (auto& [key, array] : read_npz(file)) tensors.emplace(key, std::move(array));
  } else {
    tensors = read_weights(file).tensors;
  }
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  fail_user({.where = file.string(), .what = fmt::format("no tensor \"{}\"", name), .why = "it was asked for", .next = "check the name"});
}

FileSamples open_samples(const fs::path& file, const std::string& name) {
  FileSamples samples;
  Shape shape;
  if (file.extension() == ".npy") {
    const NpyHeader header = read_npy_header(file);
    shape = header.shape;
    samples.dtype = header.type;
    samples.rows = [file](int64_t first, int64_t count) { return read_npy_rows(file, first, count); };
  } else {
    const at::Tensor all = named_tensor(file, name);
    shape = all.sizes().vec();
    samples.dtype = all.scalar_type();
    samples.rows = [all](int64_t first, int64_t count) { return all.narrow(0, first, count); };
  }
  if (shape.empty())
    fail_user({.where = file.string(), .what = "an array without dims", .why = "samples lie along the first dim",
               .next = "save a list of samples"});
  samples.count = shape[0];
  samples.sample_shape.assign(shape.begin() + 1, shape.end());
  return samples;
}

at::Tensor empty_rows(int64_t count, const Shape& sample_shape, at::ScalarType dtype) {
  Shape shape = sample_shape;
  shape.insert(shape.begin(), count);
  return at::empty(shape, dtype);
}

at::Tensor as_index(const std::vector<int64_t>& positions) { return at::tensor(positions, at::kLong); }

[[noreturn]] void fail_map(const std::string& what) {
  fail_user({.where = "map", .what = what, .why = "a function of blocks keeps their samples and gives all of them one shape and dtype",
             .next = "correct the function"});
}

/// The shape and dtype of a worker's samples as numbers of a fixed count, since messages have sizes that both sides know.
at::Tensor describe(const std::optional<at::Tensor>& samples) {
  at::Tensor numbers = at::full({static_cast<int64_t>(kMostDims) + 2}, -1, at::kLong);
  if (!samples) return numbers;
  const Shape shape = samples->sizes().slice(1).vec();
  if (shape.size() > kMostDims) fail_map(fmt::format("samples of {} dims", shape.size()));
  auto* value = numbers.data_ptr<int64_t>();
  value[0] = static_cast<int64_t>(samples->scalar_type());
  value[1] = static_cast<int64_t>(shape.size());
  std::copy(shape.begin(), shape.end(), value + 2);
  return numbers;
}

}  // namespace

Range BlockGrid::range(int64_t row, int64_t column) const {
  check_internal(row >= 0 && row < rows && column >= 0 && column < columns, "a block lies inside its grid");
  const int64_t begin = std::min((row * columns + column) * block_samples, samples);
  return {begin, std::min(begin + block_samples, samples)};
}

BlockGrid grid_of(int64_t samples, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1)
    fail_user({.where = "grid of blocks", .what = fmt::format("{} x {}", rows, columns), .why = "it has at least one row and one column",
               .next = "set positive numbers"});
  const int64_t blocks = rows * columns;
  return {samples, rows, columns, std::max<int64_t>((samples + blocks - 1) / blocks, 1)};
}

BlockGrid grid_of_blocks(int64_t samples, int64_t block_samples, int64_t columns) {
  if (block_samples < 1 || columns < 1)
    fail_user({.where = "grid of blocks", .what = fmt::format("{} samples per block, {} columns", block_samples, columns),
               .why = "both are at least 1", .next = "set positive numbers"});
  const int64_t row = block_samples * columns;
  return {samples, std::max<int64_t>((samples + row - 1) / row, 1), columns, block_samples};
}

DistributedTensor::DistributedTensor(const BlockGrid& grid, const Mesh& mesh, Communicator& world)
    : grid_(grid), mesh_(mesh), world_(&world), first_(static_cast<size_t>(grid.blocks()), -1) {
  check_internal(mesh.size() > 0 && mesh.workers.size() == static_cast<size_t>(mesh.size()), "a mesh has its workers");
  int64_t next = 0;
  for (int64_t b = 0; b < grid.blocks(); ++b) {
    if (!holds(b / grid.columns, b % grid.columns)) continue;
    first_[static_cast<size_t>(b)] = next;
    next += grid.range(b / grid.columns, b % grid.columns).size();
  }
}

int DistributedTensor::owner(int64_t row, int64_t column) const {
  return mesh_.workers[static_cast<size_t>((row % mesh_.data) * mesh_.tensor + column % mesh_.tensor)];
}

at::Tensor DistributedTensor::block(int64_t row, int64_t column) const {
  const Range range = grid_.range(row, column);
  const int64_t first = first_[static_cast<size_t>(row * grid_.columns + column)];
  check_internal(first >= 0, "a worker asks for its own blocks only");
  return local_.narrow(0, first, range.size());
}

std::vector<int64_t> DistributedTensor::local_indices() const {
  std::vector<int64_t> indices;
  for (int64_t b = 0; b < grid_.blocks(); ++b) {
    if (first_[static_cast<size_t>(b)] < 0) continue;
    const Range range = grid_.range(b / grid_.columns, b % grid_.columns);
    for (int64_t i = range.begin; i < range.end; ++i) indices.push_back(i);
  }
  return indices;
}

DistributedTensor::Place DistributedTensor::place_of(int64_t sample) const {
  const int64_t b = sample / grid_.block_samples;
  return {owner(b / grid_.columns, b % grid_.columns), first_[static_cast<size_t>(b)] + sample % grid_.block_samples};
}

DistributedTensor DistributedTensor::from_tensor(const at::Tensor& full, const BlockGrid& grid, const Mesh& mesh, Communicator& world) {
  check_internal(full.dim() > 0 && full.size(0) == grid.samples, "a grid is made for its tensor");
  DistributedTensor result(grid, mesh, world);
  result.local_ = full.index_select(0, as_index(result.local_indices()));
  return result;
}

DistributedTensor DistributedTensor::from_files(const std::vector<fs::path>& files, const std::string& name, int64_t block_samples,
                                                int64_t columns, const Mesh& mesh, Communicator& world) {
  if (files.empty())
    fail_user({.where = "distributed tensor", .what = "no files", .why = "samples come from at least one", .next = "name them"});
  std::vector<at::Tensor> pieces;
  std::optional<FileSamples> first;
  int64_t offset = 0;
  for (const fs::path& file : files) {
    const FileSamples samples = open_samples(file, name);
    if (first && (samples.sample_shape != first->sample_shape || samples.dtype != first->dtype))
      fail_user({.where = file.string(),
                 .what = fmt::format("samples of {} {}", to_string(samples.sample_shape), c10::toString(samples.dtype)),
                 .why = fmt::format("those of {} are {} {}", files[0].string(), to_string(first->sample_shape),
                                    c10::toString(first->dtype)),
                 .next = "files of one tensor hold samples of one kind"});
    // who holds a block depends on its number only, so the blocks can be taken before the number of samples is known
    const int64_t end = offset + samples.count;
    const BlockGrid so_far = grid_of_blocks(end, block_samples, columns);
    const DistributedTensor layout(so_far, mesh, world);
    for (int64_t b = offset / block_samples; b * block_samples < end; ++b) {
      if (!layout.holds(b / columns, b % columns)) continue;
      const int64_t from = std::max(b * block_samples, offset), to = std::min((b + 1) * block_samples, end);
      pieces.push_back(samples.rows(from - offset, to - from).clone());
    }
    offset = end;
    if (!first) first = FileSamples{samples.sample_shape, samples.dtype, 0, nullptr};
  }
  DistributedTensor result(grid_of_blocks(offset, block_samples, columns), mesh, world);
  result.local_ = pieces.empty() ? empty_rows(0, first->sample_shape, first->dtype) : at::cat(pieces);
  return result;
}

DistributedTensor DistributedTensor::map(const std::function<at::Tensor(const at::Tensor&)>& f) const {
  std::vector<at::Tensor> pieces;
  const auto add = [&](const at::Tensor& block) {
    const at::Tensor piece = f(block);
    if (!piece.defined() || piece.dim() == 0 || piece.size(0) != block.size(0))
      fail_map(fmt::format("{} samples became {}", block.size(0), piece.defined() ? to_string(piece.sizes().vec()) : "nothing"));
    if (!pieces.empty() && (piece.sizes().slice(1) != pieces[0].sizes().slice(1) || piece.scalar_type() != pieces[0].scalar_type()))
      fail_map(fmt::format("blocks of {} and {}", to_string(pieces[0].sizes().vec()), to_string(piece.sizes().vec())));
    pieces.push_back(piece);
  };
  for (int64_t b = 0; b < grid_.blocks(); ++b) {
    const int64_t row = b / grid_.columns, column = b % grid_.columns;
    if (first_[static_cast<size_t>(b)] >= 0 && !grid_.range(row, column).empty()) add(block(row, column));
  }
  if (grid_.samples == 0) add(local_);
  DistributedTensor result(grid_, mesh_, *world_);
  if (!pieces.empty()) result.local_ = at::cat(pieces);

  const at::Tensor mine = describe(pieces.empty() ? std::optional<at::Tensor>() : result.local_);
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < world_->size(); ++rank) all.push_back(at::empty_like(mine));
  world_->all_gather(mine, all);
  const auto known = std::find_if(all.begin(), all.end(), [](const at::Tensor& t) { return t[0].item<int64_t>() >= 0; });
  check_internal(known != all.end(), "some worker holds samples");
  for (const at::Tensor& other : all)
    if (other[0].item<int64_t>() >= 0 && !at::equal(other, *known)) fail_map("workers have samples of different shapes or dtypes");
  if (pieces.empty()) {
    const auto* value = known->data_ptr<int64_t>();
    result.local_ = empty_rows(0, Shape(value + 2, value + 2 + value[1]), static_cast<at::ScalarType>(value[0]));
  }
  return result;
}

void DistributedTensor::apply(const std::function<void(at::Tensor&)>& f) {
  for (int64_t b = 0; b < grid_.blocks(); ++b) {
    const int64_t row = b / grid_.columns, column = b % grid_.columns;
    if (first_[static_cast<size_t>(b)] < 0 || grid_.range(row, column).empty()) continue;
    at::Tensor mine = block(row, column);
    f(mine);
  }
}

/// Sample i of the result is sample source_of(i) of the parts, counted through all of them. All workers walk through all samples and
/// so know, without a message, who sends what to whom: rows travel once, in the order of the result.
DistributedTensor DistributedTensor::exchange(std::span<const DistributedTensor> parts, const std::function<int64_t(int64_t)>& source_of,
                                              const BlockGrid& grid) {
  Communicator& world = *parts[0].world_;
  const auto ranks = static_cast<size_t>(world.size());
  DistributedTensor result(grid, parts[0].mesh_, world);
  std::vector<std::vector<int64_t>> sent(ranks), received(ranks);  // positions here, by the rank at the other end
  std::vector<int64_t> begins{0}, local_begins{0};                 // of the parts
  std::vector<at::Tensor> locals;
  for (const DistributedTensor& part : parts) {
    begins.push_back(begins.back() + part.size());
    local_begins.push_back(local_begins.back() + part.local_.size(0));
    locals.push_back(part.local_);
  }
  for (int64_t i = 0; i < grid.samples; ++i) {
    const int64_t source = source_of(i);
    const auto part = static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), source) - begins.begin()) - 1;
    const Place from = parts[part].place_of(source - begins[part]), to = result.place_of(i);
    if (from.worker == world.rank()) sent[static_cast<size_t>(to.worker)].push_back(local_begins[part] + from.position);
    if (to.worker == world.rank()) received[static_cast<size_t>(from.worker)].push_back(to.position);
  }
  const at::Tensor local = at::cat(locals);
  const Shape sample = parts[0].sample_shape();
  std::vector<at::Tensor> inputs, outputs;
  int64_t count = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    inputs.push_back(local.index_select(0, as_index(sent[rank])));
    outputs.push_back(empty_rows(static_cast<int64_t>(received[rank].size()), sample, local.scalar_type()));
    count += outputs.back().size(0);
  }
  world.all_to_all(inputs, outputs);
  result.local_ = empty_rows(count, sample, local.scalar_type());
  for (size_t rank = 0; rank < ranks; ++rank) result.local_.index_copy_(0, as_index(received[rank]), outputs[rank]);
  return result;
}

DistributedTensor DistributedTensor::rechunk(const BlockGrid& grid) const {
  return cat({this, 1}, grid);
}

DistributedTensor DistributedTensor::cat(std::span<const DistributedTensor> parts, const BlockGrid& grid) {
  check_internal(!parts.empty(), "there is something to put together");
  int64_t samples = 0;
  for (const DistributedTensor& part : parts) {
    check_internal(part.mesh_ == parts[0].mesh_ && part.world_ == parts[0].world_, "tensors that meet lie on one mesh");
    if (part.sample_shape() != parts[0].sample_shape() || part.dtype() != parts[0].dtype())
      fail_user({.where = "cat", .what = fmt::format("samples of {} {}", to_string(part.sample_shape()), c10::toString(part.dtype())),
                 .why = fmt::format("the first tensor's are {} {}", to_string(parts[0].sample_shape()), c10::toString(parts[0].dtype())),
                 .next = "convert one of them with map"});
    samples += part.size();
  }
  if (samples != grid.samples)
    fail_user({.where = "grid of blocks", .what = fmt::format("{} samples", grid.samples), .why = fmt::format("the tensor has {}", samples),
               .next = "make the grid for this number"});
  return exchange(parts, [](int64_t i) { return i; }, grid);
}

DistributedTensor DistributedTensor::shuffled(uint64_t seed, int64_t epoch) const {
  const std::vector<int64_t> order = sample_order(size(), seed, epoch);
  return exchange({this, 1}, [&](int64_t i) { return order[static_cast<size_t>(i)]; }, grid_);
}

at::Tensor DistributedTensor::gather() const {
  std::vector<std::vector<int64_t>> indices(static_cast<size_t>(world_->size()));
  for (int64_t i = 0; i < size(); ++i) indices[static_cast<size_t>(place_of(i).worker)].push_back(i);
  std::vector<at::Tensor> parts;
  for (const auto& held : indices) parts.push_back(empty_rows(static_cast<int64_t>(held.size()), sample_shape(), dtype()));
  world_->all_gather(local_, parts);
  at::Tensor whole = empty_rows(size(), sample_shape(), dtype());
  for (size_t rank = 0; rank < parts.size(); ++rank) whole.index_copy_(0, as_index(indices[rank]), parts[rank]);
  return whole;
}

std::pair<DistributedTensor, DistributedTensor> shuffle(const DistributedTensor& data, const DistributedTensor& target, uint64_t seed,
                                                        int64_t epoch) {
  if (data.size() != target.size())
    fail_user({.where = "shuffle", .what = fmt::format("{} samples and {} targets", data.size(), target.size()),
               .why = "every sample has one target", .next = "check the files"});
  return {data.shuffled(seed, epoch), target.shuffled(seed, epoch)};
}

}  // namespace trireme
