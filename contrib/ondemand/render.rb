# The widget as the dashboard would render it, to look at: BATCHCAST_SOCKET=PATH ruby contrib/ondemand/render.rb
require "erb"
require_relative "initializers/batchcast"
include ERB::Util

puts ERB.new(File.read(File.join(__dir__, "views/widgets/_batchcast_jobs.html.erb")), trim_mode: "<>").result(binding)
