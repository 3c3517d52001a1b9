#include "comm/direct/direct_messages.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <thread>

#include "base/memory.h"
#include "base/mutex.h"
#include "base/text.h"
#include "comm/rendezvous/text_messages.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kAnnouncement = 0, kHostData = 1;  // tags
constexpr int kSenderOfLink = 0, kReceiverOfLink = 1, kMembersOfLink = 2;

/// What the receiver must know before the data come.
struct Announcement {
  int64_t tag = 0;
  int dtype = 0;
  std::vector<int64_t> sizes, strides;
  bool of_host = false;
  std::string link;  ///< of the first message from the device: the id of the new link, in hexadecimal digits
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Announcement, tag, dtype, sizes, strides, of_host, link)

std::string to_digits(const std::string& bytes) {
  std::string digits;
  for (const char c : bytes) digits += fmt::format("{:02x}", uint8_t(c));
  return digits;
}

std::string from_digits(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) bytes += char(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

/// The elements in the order of memory.
at::Tensor in_memory_order(const at::Tensor& dense) { return dense.as_strided({dense.numel()}, {1}); }

}  // namespace

/// The thread that sends to one rank.
class DirectMessages::Sender {
 public:
  /// `control` is used for abort() alone, which any thread may call.
  Sender(Communicator& control, std::string id, int to, std::shared_ptr<DeviceLinks> links, LinkPatience patience)
      : control_(control),
        to_(to),
        links_(std::move(links)),
        patience_(std::move(patience)),
        thread_([this, id = std::move(id)] { work(id); }) {}
  ~Sender() {
    {
      const MutexLock lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void add(at::Tensor tensor, WorkBefore before) {
    {
      const MutexLock lock(mutex_);
      waiting_.push_back({std::move(tensor), std::move(before)});
    }
    changed_.notify_all();
  }

 private:
  struct Outgoing {
    at::Tensor tensor;
    WorkBefore before;
  };

  std::optional<Outgoing> next() {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() TRIREME_REQUIRES(mutex_) { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return std::nullopt;
    Outgoing first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }

  void work(const std::string& id) {
    try {
      const auto link = links_->connect(id, kSenderOfLink, kMembersOfLink, patience_);
      const std::string doing = fmt::format("send to rank {}", to_);
      while (const std::optional<Outgoing> outgoing = next())
        link->send(in_memory_order(outgoing->tensor), kReceiverOfLink, outgoing->before, doing);
    } catch (const std::exception& error) {
      control_.abort(fmt::format("rank {}, send to rank {}: {}", control_.rank(), to_, first_line(error)));
    }
  }

  Communicator& control_;
  const int to_;
  const std::shared_ptr<DeviceLinks> links_;
  const LinkPatience patience_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Outgoing> waiting_ TRIREME_GUARDED_BY(mutex_);
  bool ending_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

DirectMessages::DirectMessages(std::unique_ptr<Communicator> control, std::shared_ptr<DeviceLinks> links,
                               LinkPatience patience)
    : control_(std::move(control)), links_(std::move(links)), patience_(std::move(patience)) {}

DirectMessages::~DirectMessages() = default;

void DirectMessages::send(const at::Tensor& tensor, int to, int64_t tag) {
  Announcement announcement{.tag = tag,
                            .dtype = int(tensor.scalar_type()),
                            .sizes = tensor.sizes().vec(),
                            .strides = tensor.strides().vec(),
                            .of_host = on_host(tensor),
                            .link = ""};
  const bool by_link = !announcement.of_host && tensor.numel() > 0;
  std::unique_ptr<Sender>& sender = senders_[to];
  const std::string new_link = by_link && !sender ? links_->make_id() : "";
  announcement.link = to_digits(new_link);
  send_text(*control_, nlohmann::json(announcement).dump(), to, kAnnouncement);
  if (announcement.of_host) control_->send(tensor, to, kHostData);
  if (!by_link) return;
  if (!sender) sender = std::make_unique<Sender>(*control_, new_link, to, links_, patience_);
  sender->add(tensor, links_->work_before());
}

std::pair<int64_t, at::Tensor> DirectMessages::receive_next(int from, double& waited) {
  const double before = control_->count().wait_seconds;
  const auto announced = nlohmann::json::parse(receive_text(*control_, from, kAnnouncement)).get<Announcement>();
  waited += control_->count().wait_seconds - before;
  if (announced.of_host) return {announced.tag, control_->receive(from, kHostData)};
  const at::Tensor tensor = at::empty_strided(
      announced.sizes, announced.strides, at::TensorOptions(links_->device()).dtype(at::ScalarType(announced.dtype)));
  if (tensor.numel() == 0) return {announced.tag, tensor};
  std::unique_ptr<DeviceLink>& link = sources_[from].link;
  if (!link) link = links_->connect(from_digits(announced.link), kReceiverOfLink, kMembersOfLink, patience_);
  link->receive(in_memory_order(tensor), kSenderOfLink,
                fmt::format("receive from rank {}, tag {}", from, announced.tag));
  return {announced.tag, tensor};
}

at::Tensor DirectMessages::receive(int from, int64_t tag, double& waited) {
  std::map<int64_t, std::deque<at::Tensor>>& kept = sources_[from].kept;
  auto found = kept.find(tag);
  while (found == kept.end()) {
    auto [other, tensor] = receive_next(from, waited);
    if (other == tag) return tensor;
    kept[other].push_back(std::move(tensor));
    found = kept.find(tag);
  }
  at::Tensor tensor = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) kept.erase(found);
  return tensor;
}

}  // namespace trireme
