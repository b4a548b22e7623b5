// The store as tasks see it: calls run one after the other on a thread of their own, so that a slow
// disk never stops the event loop. Owned by whoever wires the program; one executor.
#pragma once

#include <memory>
#include <utility>

#include "net/task.h"
#include "store/store.h"

namespace firebreak::store {

class Database {
 public:
  explicit Database(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  ~Database() { pool_.join(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // `work` gets the Store and returns a Result.
  template <class Work>
  net::Task<std::invoke_result_t<Work, Store&>> run(Work work) {
    auto call = [this, &work] { return work(*store_); };
    co_return co_await net::run_blocking(pool_, call);
  }

 private:
  std::unique_ptr<Store> store_;
  net::asio::thread_pool pool_{1};
};

}  // namespace firebreak::store
