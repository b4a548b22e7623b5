#include "machine/qemu/qmp.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace firebreak::machine {
namespace {
constexpr std::size_t kMaxLine = 1 << 20;
constexpr std::size_t kReadChunk = 16 * 1024;
}  // namespace

std::shared_ptr<Qmp> Qmp::start(Socket socket) {
  std::shared_ptr<Qmp> qmp(new Qmp(std::move(socket)));
  auto sent = qmp->submit("qmp_capabilities", {}, -1);
  if (sent) {
    qmp->hello_id_ = *sent;
    qmp->read_more();
  } else {
    qmp->end(sent.error());
  }
  return qmp;
}

Qmp::Qmp(Socket socket) : socket_(std::move(socket)) {}
Qmp::~Qmp() = default;

void Qmp::close() {
  end({Code::unavailable, "the monitor connection was closed", {}});
}

void Qmp::end(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  on_event_ = nullptr;
  boost::system::error_code ignored;
  socket_.close(ignored);
  for (auto& [id, waiter] : waiters_)
    if (waiter.arrived != nullptr) waiter.arrived->notify();
}

// One sendmsg: commands are small, and a monitor that lets the socket buffer fill is stuck.
Result<std::uint64_t> Qmp::submit(std::string_view command, json::object arguments, int pass_fd) {
  if (failure_) return std::unexpected(*failure_);
  const std::uint64_t id = next_id_++;
  json::object message{{"execute", json::string_view(command.data(), command.size())}, {"id", id}};
  if (!arguments.empty()) message["arguments"] = std::move(arguments);
  std::string text = json::serialize(message) + "\n";

  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (pass_fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &pass_fd, sizeof pass_fd);
  }
  const ssize_t n = ::sendmsg(socket_.native_handle(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(text.size())) {
    auto error =
        fail_errno("sending '" + std::string(command) + "' to the monitor", n < 0 ? errno : EAGAIN);
    end(error.error());
    return error;
  }
  waiters_[id];
  return id;
}

net::Task<Result<json::value>> Qmp::answer(std::uint64_t id, Deadline deadline) {
  net::Event arrived(socket_.get_executor());
  waiters_[id].arrived = &arrived;
  for (;;) {
    Waiter& waiter = waiters_[id];
    if (waiter.result) {
      auto result = *std::move(waiter.result);
      waiters_.erase(id);
      co_return result;
    }
    if (failure_) {
      waiters_.erase(id);
      co_return std::unexpected(*failure_);
    }
    if (!co_await arrived.wait(deadline) && !waiters_[id].result) {
      waiters_[id].arrived = nullptr;
      waiters_[id].wanted = false;
      co_return fail(Code::timeout, "the virtual machine monitor did not answer in time");
    }
  }
}

net::Task<Result<>> Qmp::ready(Deadline deadline) {
  if (hello_id_ == 0) co_return Result<>();
  FB_CO_TRY(co_await answer(hello_id_, deadline));
  hello_id_ = 0;
  co_return Result<>();
}

net::Task<Result<json::value>> Qmp::execute(std::string_view command, json::object arguments,
                                            Deadline deadline, int pass_fd) {
  const std::string name(command);
  FB_CO_TRY_ASSIGN(const std::uint64_t id, submit(name, std::move(arguments), pass_fd));
  auto result = co_await answer(id, deadline);
  if (!result) co_return fail(result.error(), "monitor command '" + name + "'");
  co_return result;
}

Result<> Qmp::post(std::string_view command, json::object arguments) {
  FB_TRY_ASSIGN(const std::uint64_t id, submit(command, std::move(arguments), -1));
  waiters_[id].wanted = false;
  return {};
}

void Qmp::read_more() {
  if (in_.size() < used_ + kReadChunk) in_.resize(used_ + kReadChunk);
  socket_.async_read_some(
      net::asio::buffer(in_.data() + used_, in_.size() - used_),
      [self = shared_from_this()](boost::system::error_code ec, std::size_t n) {
        if (self->failure_) return;
        if (ec) return self->end({Code::unavailable, "the virtual machine ended", ec.message()});
        self->used_ += n;
        std::string_view all(self->in_.data(), self->used_);
        std::size_t begin = 0;
        for (auto at = all.find('\n'); at != std::string_view::npos; at = all.find('\n', begin)) {
          self->take_line(all.substr(begin, at - begin));
          if (self->failure_) return;
          begin = at + 1;
        }
        self->in_.erase(0, begin);
        self->used_ -= begin;
        if (self->used_ > kMaxLine)
          return self->end({Code::guest, "a line of the monitor is too long", {}});
        self->read_more();
      });
}

Result<Qmp::Line> Qmp::parse_line(std::string_view line) {
  auto message = parse_json_object(line);
  if (!message)
    return fail(Code::guest, "the monitor sent something that is not JSON",
                message.error().message);
  Line out;
  if (const json::value* event = message->if_contains("event");
      event != nullptr && event->is_string()) {
    out.event = std::string(event->as_string());
    if (json::value* data = message->if_contains("data"); data != nullptr && data->is_object())
      out.data = std::move(data->as_object());
  }
  const json::value* id = message->if_contains("id");
  if (id == nullptr) return out;
  if (id->is_int64() && id->as_int64() >= 0) out.id = static_cast<std::uint64_t>(id->as_int64());
  if (id->is_uint64()) out.id = id->as_uint64();
  if (!out.id) return out;  // nobody asked with such an id
  if (const json::value* value = message->if_contains("return")) {
    out.answer = *value;
  } else {
    std::string text = "unknown error";
    if (const json::value* error = message->if_contains("error");
        error != nullptr && error->is_object())
      if (const json::value* desc = error->as_object().if_contains("desc");
          desc != nullptr && desc->is_string())
        text = std::string(desc->as_string());
    out.answer = fail(Code::internal, text);
  }
  return out;
}

void Qmp::take_line(std::string_view text) {
  if (text.empty() || text == "\r") return;
  auto line = parse_line(text);
  if (!line) return end(line.error());
  if (!line->id) {
    if (!line->event.empty() && on_event_) on_event_(line->event, line->data);
    return;
  }
  auto it = waiters_.find(*line->id);
  if (it == waiters_.end()) return;
  if (!it->second.wanted) {
    waiters_.erase(it);
    return;
  }
  it->second.result = std::move(line->answer);
  if (it->second.arrived != nullptr) it->second.arrived->notify();
}

}  // namespace firebreak::machine
