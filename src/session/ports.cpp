#include "session/ports.h"

#include "image/guest_stream.h"

namespace firebreak::session {

PortConnection::PortConnection(const Guest& guest, std::unique_ptr<net::ByteStream> stream)
    : guest_(guest), stream_(std::move(stream)) {}

net::Task<Result<>> PortConnection::write(std::string bytes, Deadline deadline) {
  guest_.relayed(bytes.size(), 0);
  co_return co_await stream_->write(bytes, deadline);
}

net::Task<Result<std::string>> PortConnection::read(Deadline deadline) {
  FB_CO_TRY_ASSIGN(std::string bytes, co_await stream_->read(deadline));
  guest_.relayed(0, bytes.size());
  co_return bytes;
}

net::Task<Result<PortConnection>> connect(const Guest& guest, std::uint16_t port,
                                          Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto stream, co_await connect_kept(guest, port, deadline));
  co_return PortConnection(guest, std::move(stream));
}

net::Task<Result<std::unique_ptr<net::ByteStream>>> connect_kept(const Guest& guest,
                                                                 std::uint16_t port,
                                                                 Deadline deadline) {
  co_return guest.told(co_await image::connect_guest(guest.agent(), port, deadline));
}

std::unique_ptr<net::ByteStream> speak_kept(const Guest& guest, std::uint16_t port) {
  return image::speak_to_guest(guest.agent(), port);
}

MachineMark machine_of(const Guest& guest) {
  return &guest.agent().data();
}

}  // namespace firebreak::session
