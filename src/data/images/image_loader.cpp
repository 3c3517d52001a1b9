#include "data/images/image_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "base/mutex.h"
#include "data/bytes.h"
#include "data/source_words.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Least number of pixels of a reduced JPEG per pixel of the sample, along each side.
constexpr int64_t kReducingGap = 2;
constexpr int kMaxReduction = 8;
constexpr size_t kUsualHeader = 16 << 10;  // bytes; if a header is longer (with a thumbnail), the whole file is read
const char* const kFileMissing = "put the file back, or open the set again";
const char* const kPutBack = "put the file back, or leave broken samples out with data.on_error = \"skip\"";

int reduction_for(const SampleView& view) {
  int reduce = 1;
  while (reduce < kMaxReduction && view.box.height >= view.full.height * kReducingGap * reduce * 2 &&
         view.box.width >= view.full.width * kReducingGap * reduce * 2)
    reduce *= 2;
  return reduce;
}

/// Changes the view to the same part of an image whose pixels stand for `reduce` x `reduce` pixels each. The last row
/// and column may stand for fewer: the image's edge lies inside them.
void reduce_view(SampleView& view, int64_t reduce) {
  const Rectangle box = view.box;
  const auto end = [reduce](int64_t first, int64_t length) { return (first + length + reduce - 1) / reduce; };
  const int64_t y = box.y / reduce, x = box.x / reduce;
  view.box = {y, x, end(box.y, box.height) - y, end(box.x, box.width) - x};
  const auto by = double(reduce);
  view.part = ExactRectangle{double(box.y) / by - double(y), double(box.x) / by - double(x), double(box.height) / by,
                             double(box.width) / by};
}

ImageSize size_by_header(const std::filesystem::path& file, ImageSize (*size_of)(Bytes, const std::filesystem::path&)) {
  const std::vector<uint8_t> beginning = read_file(file, kPutBack, kUsualHeader);
  if (beginning.size() < kUsualHeader) return size_of(beginning, file);
  try {
    return size_of(beginning, file);
  } catch (const Error&) {
    return size_of(read_file(file, kPutBack), file);
  }
}

/// Returns the message of the user error that `act` throws; "" if it throws none.
std::string user_error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.blame() != Blame::user) throw;
    return error.what();
  }
  return "";
}

}  // namespace

ViewedImage load_image(const std::filesystem::path& file, int64_t channels, const ViewOf& view_of, Image& buffer) {
  const std::vector<uint8_t> bytes = read_file(file, kFileMissing);
  const ImageSize whole = image_size(bytes, file);
  SampleView view = view_of(whole);
  const int reduce = reduction_for(view);
  buffer = decode_image(bytes, file, channels, reduce);
  if (buffer.size != whole) reduce_view(view, reduce);  // a PNG is decoded whole
  return {buffer.view(), view};
}

Checked check_samples(int64_t n, const std::function<void(int64_t)>& check) {
  std::vector<std::string> problems(static_cast<size_t>(n));
  std::atomic<int64_t> next = 0;
  Mutex mutex;
  std::exception_ptr unexpected;
  auto work = [&] {
    for (int64_t i = next++; i < n; i = next++) {
      try {
        problems[static_cast<size_t>(i)] = user_error_of([&] { check(i); });
      } catch (...) {
        MutexLock lock(mutex);
        unexpected = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < std::max(1u, std::thread::hardware_concurrency()); ++t) threads.emplace_back(work);
    work();
  }
  if (unexpected) std::rethrow_exception(unexpected);
  Checked checked;
  for (int64_t i = 0; i < n; ++i) {
    const std::string& problem = problems[static_cast<size_t>(i)];
    if (problem.empty()) checked.good.push_back(i);
    else if (checked.first_problem.empty()) checked.first_problem = problem;
  }
  return checked;
}

void require_samples(int64_t n, const std::function<void(int64_t)>& check) {
  const Checked checked = check_samples(n, check);
  const int64_t bad = n - static_cast<int64_t>(checked.good.size());
  if (bad == 0) return;
  int64_t first = 0;
  while (first < n - bad && checked.good[static_cast<size_t>(first)] == first) ++first;
  try {
    check(first);
  } catch (const Error& error) {
    Diagnosis diagnosis = error.diagnosis();
    if (bad > 1)
      diagnosis.why +=
          fmt::format("{}the first of {} broken samples", diagnosis.why.empty() ? "" : ", ", with_commas(bad));
    throw Error(error.blame(), std::move(diagnosis));
  }
  fail_user({.where = "data",
             .what = "a file changed while it was read",
             .why = checked.first_problem,
             .next = "start again"});
}

ImageSize size_of_image(const std::filesystem::path& file) { return size_by_header(file, image_size); }
ImageSize size_of_mask(const std::filesystem::path& file) { return size_by_header(file, mask_size); }

ImageSize check_image(const std::filesystem::path& file) {
  const std::vector<uint8_t> bytes = read_file(file, kFileMissing);
  const ImageSize size = image_size(bytes, file);
  decode_image(bytes, file, 3, kMaxReduction);
  return size;
}

std::string left_out(const std::string& what, int64_t n, const Checked& checked, const std::filesystem::path& folder) {
  const int64_t bad = n - static_cast<int64_t>(checked.good.size());
  if (bad == 0) return "";
  std::string problem = checked.first_problem;
  const std::string prefix = folder.string() + "/";
  if (problem.starts_with(prefix)) problem.erase(0, prefix.size());
  if (checked.good.empty())
    fail_user({.where = folder.string(),
               .what = fmt::format("none of {} {} can be read", n, what),
               .why = "the first: " + problem,
               .next = "get the set again"});
  return fmt::format(", {} of {} {} left out (first: {})", with_commas(bad), with_commas(n), what, problem);
}

}  // namespace trireme
