# What the dashboard would render, to look at: BATCHCAST_SOCKET=PATH ruby contrib/ondemand/render.rb [apps/jupyter/form.yml.erb]
require "erb"
require_relative "initializers/batchcast"
include ERB::Util

file = ARGV.fetch(0, "views/widgets/_batchcast_jobs.html.erb")
puts ERB.new(File.read(File.expand_path(file, __dir__)), trim_mode: file.end_with?(".yml.erb") ? "-" : "<>").result(binding)
