module leasehold.example/lease

go 1.19
